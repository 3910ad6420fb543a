"""A plain RAG of LlamaIndex as a system: `ragsmith evaluate docs/rag_llama_index.py:answer --dataset finance`."""

from llama_index.core import Document, Settings, VectorStoreIndex
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.llms import MockLLM
from llama_index.core.node_parser import SentenceSplitter

import ragsmith
from ragsmith.models.embedded.wordllama import WordLlamaEmbedder

words = WordLlamaEmbedder()  # in place of a served embedder


class Vectors(BaseEmbedding):
    def _get_text_embedding(self, text):
        return words.embed([text])[0].tolist()

    def _get_query_embedding(self, query):
        return self._get_text_embedding(query)

    async def _aget_query_embedding(self, query):
        return self._get_text_embedding(query)


Settings.llm = MockLLM(max_tokens=60)  # stands for a chat model, so that the example needs no key
Settings.embed_model = Vectors()
documents = [Document(text=one.text, metadata={"doc": one.id}) for one in ragsmith.load_dataset("finance").documents]


def build(k=5, chunk_size=200):
    splitter = SentenceSplitter(chunk_size=chunk_size, chunk_overlap=20)
    index = VectorStoreIndex.from_documents(documents, transformations=[splitter])
    engine = index.as_query_engine(similarity_top_k=k)

    def answer(question):
        done = engine.query(question)
        return str(done), [{"text": one.get_content(), "doc": one.metadata["doc"]} for one in done.source_nodes]

    return answer


answer = build()
