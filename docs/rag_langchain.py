"""A plain RAG of LangChain as a system: `ragsmith evaluate docs/rag_langchain.py:answer --dataset finance`."""

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.prompts import PromptTemplate
from langchain_core.runnables import RunnableLambda
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_text_splitters import RecursiveCharacterTextSplitter

import ragsmith
from ragsmith.models.embedded.wordllama import WordLlamaEmbedder

words = WordLlamaEmbedder()  # in place of a served embedder


class Vectors(Embeddings):
    def embed_documents(self, texts):
        return words.embed(texts).tolist()

    def embed_query(self, text):
        return words.embed([text])[0].tolist()


def first_passage(prompt):  # stands for a chat model, so that the example needs no key
    return prompt.to_string().split("\n\n")[1]


documents = [Document(one.text, metadata={"source": one.id}) for one in ragsmith.load_dataset("finance").documents]
prompt = PromptTemplate.from_template("Answer {question}\n\n{context}")


def build(k=5, chunk_size=700):
    store = InMemoryVectorStore(Vectors())
    splitter = RecursiveCharacterTextSplitter(chunk_size=chunk_size, chunk_overlap=100)
    store.add_documents(splitter.split_documents(documents))
    retriever = store.as_retriever(search_kwargs={"k": k})
    chain = prompt | RunnableLambda(first_passage)

    def answer(question):
        found = retriever.invoke(question)
        said = chain.invoke({"question": question, "context": "\n\n".join(one.page_content for one in found)})
        return said, [{"text": one.page_content, "doc": one.metadata["source"]} for one in found]

    return answer


answer = build()
