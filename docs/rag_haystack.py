"""A plain RAG of Haystack as a system: `ragsmith evaluate docs/rag_haystack.py:answer --dataset finance`."""

from haystack import Document, Pipeline, component
from haystack.components.builders import PromptBuilder
from haystack.components.preprocessors import DocumentSplitter
from haystack.components.retrievers.in_memory import InMemoryBM25Retriever
from haystack.document_stores.in_memory import InMemoryDocumentStore

import ragsmith


@component
class FirstPassage:  # stands for a chat model, so that the example needs no key
    @component.output_types(replies=list[str])
    def run(self, prompt: str):
        return {"replies": [prompt.split("\n\n")[1]]}


documents = [Document(content=one.text, meta={"doc": one.id}) for one in ragsmith.load_dataset("finance").documents]
prompt = "Answer {{ question }}\n\n{% for one in documents %}{{ one.content }}\n\n{% endfor %}"


def build(k=5, words=120):
    splitter = DocumentSplitter(split_by="word", split_length=words)
    store = InMemoryDocumentStore()
    store.write_documents(splitter.run(documents)["documents"])
    pipeline = Pipeline()
    pipeline.add_component("retriever", InMemoryBM25Retriever(store, top_k=k))
    pipeline.add_component("prompt", PromptBuilder(prompt, required_variables=["question", "documents"]))
    pipeline.add_component("llm", FirstPassage())
    pipeline.connect("retriever.documents", "prompt.documents")
    pipeline.connect("prompt.prompt", "llm.prompt")

    def answer(question):
        asked = {"retriever": {"query": question}, "prompt": {"question": question}}
        done = pipeline.run(asked, include_outputs_from={"retriever"})
        found = done["retriever"]["documents"]
        return done["llm"]["replies"][0], [{"text": one.content, "doc": one.meta["doc"]} for one in found]

    return answer


answer = build()
