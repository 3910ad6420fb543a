(function () {
  "use strict";
  var tip = null, pointed = null;

  // What a mark says of itself stands in its title, for those without this script; here it is shown at once.
  document.querySelectorAll("svg.chart").forEach(function (chart) {
    chart.querySelectorAll("title").forEach(function (title) {
      title.parentNode.setAttribute("data-said", title.textContent);
      title.remove();
    });
    chart.addEventListener("pointermove", function (event) { show(nearest(chart, event), event); });
    chart.addEventListener("pointerleave", function () { show(null); });
  });

  function nearest(chart, event) {
    var best = null, least = 24;
    chart.querySelectorAll("[data-said]").forEach(function (mark) {
      var box = mark.getBoundingClientRect();
      var x = Math.max(box.left - event.clientX, 0, event.clientX - box.right);
      var y = Math.max(box.top - event.clientY, 0, event.clientY - box.bottom);
      var away = Math.hypot(x, y) + 0.01 * Math.hypot(box.left - event.clientX, box.top - event.clientY);
      if (away < least) { best = mark; least = away; }
    });
    return best;
  }

  function show(mark) {
    if (mark === pointed) { return; }
    if (pointed) { pointed.classList.remove("pointed"); tip.remove(); }
    pointed = mark;
    if (!mark) { return; }
    mark.classList.add("pointed");
    tip = document.createElement("div");
    tip.id = "tip";
    tip.textContent = mark.getAttribute("data-said");
    document.body.append(tip);
    var box = mark.getBoundingClientRect();
    var left = Math.min(box.left + scrollX, scrollX + document.documentElement.clientWidth - tip.offsetWidth - 8);
    tip.style.left = Math.max(8, left) + "px";
    var above = box.top - tip.offsetHeight - 8;
    tip.style.top = scrollY + (above > 0 ? above : box.bottom + 8) + "px";
  }

  window.addEventListener("beforeprint", function () {
    document.querySelectorAll("details").forEach(function (part) { part.open = true; });
  });
})();
