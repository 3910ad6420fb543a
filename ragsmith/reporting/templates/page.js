(function () {
  "use strict";
  var tip = document.createElement("div"), pointed = null;
  tip.id = "tip";
  tip.hidden = true;
  document.body.append(tip);

  // Tooltips of chart marks are title elements without this script; with it, they are shown without delay.
  document.querySelectorAll("svg.chart").forEach(function (chart) {
    chart.querySelectorAll("title").forEach(function (title) {
      title.parentNode.setAttribute("data-said", title.textContent);
      title.remove();
    });
    chart.addEventListener("pointermove", function (event) {
      var mark = nearest(chart, event);
      show(mark, mark && mark.getAttribute("data-said"));
    });
    chart.addEventListener("pointerleave", function () { show(null); });
  });

  function nearest(chart, event) {
    var best = null, least = 24;
    chart.querySelectorAll("[data-said]").forEach(function (mark) {
      var box = mark.getBoundingClientRect();
      var x = Math.max(box.left - event.clientX, 0, event.clientX - box.right);
      var y = Math.max(box.top - event.clientY, 0, event.clientY - box.bottom);
      if (Math.hypot(x, y) < least) { best = mark; least = Math.hypot(x, y); }
    });
    return best;
  }

  // Terms show their definition on hover and on keyboard focus; without this script they are links.
  document.querySelectorAll("a.term").forEach(function (term) {
    function explain() { show(term, document.getElementById(term.hash.slice(1)).textContent); }
    function end() { if (pointed === term) { show(null); } }
    term.addEventListener("pointerenter", explain);
    term.addEventListener("focus", explain);
    term.addEventListener("pointerleave", end);
    term.addEventListener("blur", end);
    term.addEventListener("click", function (event) { event.preventDefault(); explain(); });
  });
  document.addEventListener("keydown", function (event) { if (event.key === "Escape") { show(null); } });

  function show(mark, said) {
    if (mark === pointed) { return; }
    if (pointed) { pointed.classList.remove("pointed"); }
    pointed = mark;
    tip.hidden = !mark;
    if (!mark) { return; }
    mark.classList.add("pointed");
    tip.textContent = said;
    tip.style.left = tip.style.top = "0";
    var box = mark.getBoundingClientRect();
    var left = Math.min(box.left, document.documentElement.clientWidth - tip.offsetWidth - 8);
    var above = box.top - tip.offsetHeight - 8;
    tip.style.left = scrollX + Math.max(8, left) + "px";
    tip.style.top = scrollY + (above > 0 ? above : box.bottom + 8) + "px";
  }

  // The list of questions: only the rows that are shown are in the page, the others are in a template.
  document.querySelectorAll(".questions").forEach(function (list) {
    var form = list.querySelector("form"), body = list.querySelector("tbody"), more = list.querySelector(":scope > button");
    var rest = list.querySelector("template"), note = list.querySelector(".rest");
    var status = form.querySelector("[role=status]"), step = Number(list.dataset.listed), shown = step;
    var rows = Array.from(body.rows).concat(rest ? Array.from(rest.content.querySelectorAll("tr")) : []);

    function update() {
      var words = form.querySelector("input").value.toLowerCase().split(/\s+/);
      var chosen = Array.from(form.querySelectorAll("select")).filter(function (select) { return select.value; });
      var found = rows.filter(function (row) {
        var text = row.cells[0].textContent.toLowerCase();
        return chosen.every(function (select) { return row.cells[select.dataset.column].textContent === select.value; }) &&
          words.every(function (word) { return text.includes(word); });
      });
      var sorting = chosen.find(function (select) { return select.dataset.sorted; });
      if (sorting) {  // a cause: lowest fitness first
        var fitness = function (row) { return parseFloat(row.cells[sorting.dataset.sorted].textContent) || 0; };
        found.sort(function (a, b) { return fitness(a) - fitness(b); });
      }
      body.replaceChildren.apply(body, found.slice(0, shown));
      more.hidden = found.length <= shown;
      status.textContent = Math.min(shown, found.length).toLocaleString("en") + " of " + found.length.toLocaleString("en");
    }

    form.hidden = false;
    if (note) { note.hidden = true; }
    form.addEventListener("input", function () { shown = step; update(); });
    form.addEventListener("submit", function (event) { event.preventDefault(); });
    more.addEventListener("click", function () { shown += step; update(); });
    update();
  });

  window.addEventListener("beforeprint", function () {
    document.querySelectorAll("details").forEach(function (part) { part.open = true; });
  });
})();
