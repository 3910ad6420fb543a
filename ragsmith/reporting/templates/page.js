(function () {
  "use strict";
  var dark = window.matchMedia("(prefers-color-scheme: dark)");
  var narrow = window.matchMedia("(max-width: 30rem)");
  var figures = document.querySelectorAll(".figure");

  function themed(layout, forPrint) {
    var isDark = dark.matches && !forPrint;
    var text = isDark ? "#e5e8ec" : "#1b1f24";
    var line = isDark ? "#343a43" : "#d9dde2";
    var themedLayout = JSON.parse(JSON.stringify(layout));
    themedLayout.autosize = true;
    themedLayout.paper_bgcolor = themedLayout.plot_bgcolor = "rgba(0,0,0,0)";
    themedLayout.font = { color: text, size: narrow.matches ? 11 : 13, family: "system-ui, sans-serif" };
    Object.keys(themedLayout).forEach(function (name) {
      if (/^[xy]axis/.test(name)) {
        Object.assign(themedLayout[name], { gridcolor: line, linecolor: line, zerolinecolor: text });
      }
    });
    return themedLayout;
  }

  function draw(forPrint) {
    figures.forEach(function (figure) {
      var content = JSON.parse(figure.querySelector("script").textContent);
      Plotly.react(figure.querySelector("[role=img]"), content.data, themed(content.layout, forPrint), {
        responsive: true, displayModeBar: false, displaylogo: false
      });
    });
  }

  document.documentElement.classList.add("js");
  draw(false);
  dark.addEventListener("change", function () { draw(false); });
  narrow.addEventListener("change", function () { draw(false); });
  window.addEventListener("beforeprint", function () {
    document.querySelectorAll("details").forEach(function (part) { part.open = true; });
    draw(true);
  });
  window.addEventListener("afterprint", function () { draw(false); });
})();
