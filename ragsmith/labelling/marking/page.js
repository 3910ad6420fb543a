"use strict";
// A mark is sent when its key is pressed, and the next answer is shown when it is written: what has left the screen is
// never lost.

const MARKS = ["right", "partly", "wrong", "cannot tell"];
const SIGNS = {pending: "·", right: "✓", partly: "½", wrong: "✗", "cannot tell": "?"};
const at = id => document.getElementById(id);
let answers = [], current = -1, busy = false;

function element(tag, text = "", className = "") {
  const made = document.createElement(tag);
  if (text) made.textContent = text;
  if (className) made.className = className;
  return made;
}

async function ask(path, body) {
  const options = body === undefined ? {} : {
    method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify(body), keepalive: true,
  };
  let reply, values;
  try {
    reply = await fetch(path, options);
    values = await reply.json();
  } catch (error) {
    saved("lost");
    tell("The command that serves this page does not answer. Every mark that has left the screen is kept. Start the " +
         "command again, and open the address that it prints.");
    throw error;
  }
  if (!reply.ok) { saved("saved"); tell(values.error); throw new Error(values.error); }
  tell("");
  saved("saved");
  return values;
}

function saved(state) {
  at("saved").className = state;
  at("saved").textContent = {saved: "all saved", saving: "saving", lost: "not connected"}[state];
}

function tell(text) {
  at("notice").hidden = !text;
  at("notice").textContent = text;
  at("notice").className = "bad";
}

function overview() {
  const count = Object.fromEntries(["pending", ...MARKS].map(mark => [mark, answers.filter(one => one.mark === mark).length]));
  for (const bar of at("progress").children) bar.style.width = `${100 * count[bar.dataset.mark] / (answers.length || 1)}%`;
  const said = `${answers.length - count.pending} of ${answers.length} marked`;
  at("progress").setAttribute("aria-label", said);
  at("counts").replaceChildren(element("b", said), ...MARKS.map(mark => element("span", `${count[mark]} ${mark}`)));
  document.title = said;
  at("list").replaceChildren(...answers.map(line));
  at("list").querySelector("[aria-current]")?.scrollIntoView({block: "nearest"});
}

function line(answer, place) {
  const item = element("li"), button = element("button", "", answer.mark);
  button.append(element("b", SIGNS[answer.mark]), element("span", answer.question));
  button.title = answer.mark;
  if (place === current) button.setAttribute("aria-current", "true");
  button.addEventListener("click", () => { at("side").classList.remove("open"); if (!busy) show(place); });
  item.append(button);
  return item;
}

function show(place) {
  current = place;
  const answer = answers[place];
  at("done").hidden = place >= 0;
  at("card").hidden = at("actions").hidden = place < 0;
  if (place < 0) {
    at("done-title").textContent = `All ${answers.length} answers are marked.`;
    overview();
    return;
  }
  at("question").textContent = answer.question;
  at("question").className = answer.question.length > 140 ? "long" : "";
  at("answer").textContent = answer.answer || "(no answer)";
  at("reference").textContent = answer.reference;
  at("reference-block").hidden = !answer.reference;
  const chips = [element("span", `${place + 1} of ${answers.length}`)];
  if (answer.mark !== "pending") chips.unshift(element("span", `${SIGNS[answer.mark]} ${answer.mark}`, answer.mark));
  at("chips").replaceChildren(...chips);
  at("passages").replaceChildren(...answer.passages.map(passage));
  scrollTo(0, 0);
  overview();
}

function passage(part) {
  const made = element("div", "", "passage"), head = element("h3"), text = element("div", "", "text");
  head.append(element("b", part.title), element("small", part.title === part.doc ? "" : part.doc));
  for (const piece of part.pieces) text.append(element(piece.marks.length ? "mark" : "span", piece.text));
  if (part.start > 0) text.classList.add("cut-before");
  if (!part.whole) text.classList.add("cut-after");
  made.append(head, text);
  return made;
}

function nextPending() {
  const turned = [...answers.keys()].map(step => (current + 1 + step) % answers.length);
  return turned.find(place => answers[place].mark === "pending") ?? -1;
}

async function mark(mark) {
  if (busy || current < 0) return;
  busy = true;
  saved("saving");
  try {
    const place = current, reply = await ask("mark", {id: answers[place].id, mark});
    answers[place] = reply.answer;
    show(nextPending());
  } finally {
    busy = false;
  }
}

function step(by) {
  if (busy || !answers.length) return;
  show(current < 0 ? answers.length - 1 : Math.min(answers.length - 1, Math.max(0, current + by)));
}

const KEYS = {
  ArrowLeft: () => step(-1), ArrowRight: () => step(1), n: () => busy || show(nextPending()),
  l: () => at("toggle").click(), "?": () => at("keys").showModal(),
};
MARKS.forEach((name, place) => { KEYS[String(place + 1)] = () => mark(name); });

document.addEventListener("keydown", event => {
  if (at("keys").open || event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
  if (Object.hasOwn(KEYS, event.key)) { event.preventDefault(); KEYS[event.key](); }
});
for (const button of document.querySelectorAll("[data-set]")) button.addEventListener("click", () => mark(button.dataset.set));
at("previous").addEventListener("click", KEYS.ArrowLeft);
at("next").addEventListener("click", KEYS.ArrowRight);
at("help").addEventListener("click", KEYS["?"]);
at("toggle").addEventListener("click", () =>
  at("toggle").setAttribute("aria-expanded", String(at("side").classList.toggle("open"))));
for (const id of ["finish", "finish-now"]) at(id).addEventListener("click", async () => {
  await ask("finish", {});
  document.body.replaceChildren(element("main", "Marking has ended; every mark is kept. This tab can be closed."));
});

async function begin() {
  const state = await ask("state");
  answers = state.answers;
  at("name").textContent = state.name;
  at("marker").textContent = state.marker;
  show(nextPending());
}

begin();
