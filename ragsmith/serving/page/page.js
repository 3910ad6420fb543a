"use strict";
const $ = (id) => document.getElementById(id);
const make = (tag, className, text) => {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  return node;
};
const words = (name) => name.replaceAll("_", " ");
let shown = null;
let asking = null;

async function send(path, body, signal) {
  const headers = { "Content-Type": "application/json" };
  const token = $("token").value;
  if (token) headers.Authorization = `Bearer ${token}`;
  const reply = await fetch(path, { method: "POST", headers, body: JSON.stringify(body), signal });
  const found = await reply.json().catch(() => ({}));
  if (reply.ok) return found;
  if (reply.status === 401) { $("token-row").hidden = false; $("token").focus(); }
  throw new Error(found.error ? found.error.message : `the server answered with status ${reply.status}`);
}

function complain(text) {
  $("problem").textContent = text;
  $("problem").hidden = !text;
}

async function ask(question) {
  if (asking) asking.abort();
  const own = asking = new AbortController();
  complain("");
  $("status").textContent = "The answer is on its way.";
  const began = performance.now();
  try {
    const found = await send("ask", { question, stages: true }, own.signal);
    show(found, (performance.now() - began) / 1000);
  } catch (error) {
    if (own !== asking) return;
    $("status").textContent = "";
    complain(error instanceof TypeError ? "The server cannot be reached." : `No answer: ${error.message}.`);
  }
}

function show(found, seconds) {
  shown = found;
  const cited = found.passages.filter((passage) => passage.cited);
  $("status").textContent = `Answered in ${seconds.toFixed(2)} s.`;
  $("asked").textContent = found.question;
  $("text").textContent = found.answer;
  $("text").classList.toggle("declined", found.declined);
  $("cites").replaceChildren(found.declined ? "The documents do not seem to answer this; what comes closest was read."
    : cited.length ? "Rests on " : "It cites none of what was read.");
  cited.forEach((passage, i) => {
    const link = make("a", "", `[${passage.number}] ${passage.title}`);
    link.href = `#passage-${found.passages.indexOf(passage)}`;
    $("cites").append(i ? ", " : "", link);
  });
  $("passages").replaceChildren(...found.passages.map(passageOf));
  $("stages").replaceChildren(...(found.stages ? found.stages.stages.map(stageOf) : []));
  $("feedback").hidden = !found.feedback;
  $("correcting").hidden = true;
  $("corrected").value = "";
  $("kept").textContent = "";
  for (const button of document.querySelectorAll("[data-thumb]")) { button.disabled = false; button.setAttribute("aria-pressed", "false"); }
  $("keep").disabled = false;
  $("result").hidden = false;
  $("answer").focus();
}

function passageOf(passage, i) {
  const box = make("article", passage.cited ? "passage cited" : "passage");
  box.id = `passage-${i}`;
  box.tabIndex = -1;
  const head = make("header");
  head.append(make("h3", "", `[${passage.number}] ${passage.title}`));
  const score = passage.score === null ? "" : `, ${words(passage.scale)} ${passage.score.toFixed(3)}`;
  head.append(make("p", "", `${passage.doc}, characters ${passage.start} to ${passage.end}${score}${passage.cited ? ", cited" : ""}`));
  const text = make("div", "words");
  const characters = Array.from(passage.text);
  let at = 0;
  for (const quote of passage.quotes) {
    text.append(characters.slice(at, quote.start - passage.start).join(""));
    at = quote.end - passage.start;
    text.append(make("mark", "", characters.slice(quote.start - passage.start, at).join("")));
  }
  text.append(characters.slice(at).join(""));
  box.append(head, text);
  return box;
}

function stageOf(station) {
  const did = station.said !== "as before" && station.said !== "delivered as it is";
  const row = make("li", did ? "did" : "");
  row.append(make("h3", "", words(station.family)));
  const option = make("p");
  option.append(make("code", "option", station.option));
  const calls = station.calls ? `; ${station.calls} model call${station.calls === 1 ? "" : "s"}` : "";
  row.append(option, make("p", "soft", station.said + calls));
  for (const query of station.queries) if (query !== shown.question) row.append(make("p", "", `searched with “${query}”`));
  if (did && station.hits.length) {
    const more = make("details");
    const list = make("ol", "hits");
    for (const hit of station.hits) list.append(make("li", "", `${hit.score.toFixed(3)} ${words(hit.scale)}  ${hit.doc} [${hit.start}:${hit.end}]  ${hit.text}…`));
    more.append(make("summary", "", `${station.hits.length} hit${station.hits.length === 1 ? "" : "s"}`), list);
    row.append(more);
  }
  return row;
}

async function keep(thumb, corrected) {
  const sources = shown.passages.filter((passage) => passage.cited).map(({ doc, start, end }) => ({ doc, start, end }));
  const { question, answer, declined, id: request, pipeline } = shown;
  $("kept").textContent = "";
  try {
    await send("feedback", { question, answer, declined, thumb, sources, request, pipeline, ...(corrected ? { corrected } : {}) });
    for (const button of document.querySelectorAll("[data-thumb], #keep")) button.disabled = true;
    $("kept").textContent = "Kept, for somebody to look at before the next search.";
  } catch (error) {
    $("kept").textContent = `Not kept: ${error.message}.`;
  }
}

$("form").addEventListener("submit", (event) => {
  event.preventDefault();
  const question = $("question").value.trim();
  if (question) ask(question);
});
$("question").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); $("form").requestSubmit(); }
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|TEXTAREA)$/.test(event.target.tagName)) return;
  event.preventDefault();
  $("question").focus();
  $("question").select();
});
for (const button of document.querySelectorAll("[data-thumb]")) {
  button.addEventListener("click", () => {
    button.setAttribute("aria-pressed", "true");
    if (button.dataset.thumb === "up") { $("correcting").hidden = true; keep("up"); return; }
    $("correcting").hidden = false;
    $("corrected").focus();
  });
}
$("feedback").addEventListener("submit", (event) => { event.preventDefault(); keep("down", $("corrected").value.trim()); });
$("token").value = sessionStorage.getItem("token") || "";
$("token").addEventListener("change", () => sessionStorage.setItem("token", $("token").value));
