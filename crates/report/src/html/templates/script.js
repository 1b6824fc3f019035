"use strict";
// A cell that is linked to opens. A page that is printed has the cells that are open.
function openLinked() {
  var name = location.hash.slice(1);
  var target = name && document.getElementById(name);
  if (target && target.tagName === "DETAILS") {
    target.open = true;
    target.scrollIntoView();
    target.querySelector("summary").focus({ preventScroll: true });
  }
}
addEventListener("hashchange", openLinked);
addEventListener("click", function (event) {
  var link = event.target.closest && event.target.closest("a[href^='#']");
  if (link && link.hash === location.hash) openLinked();
});
// A finger cannot point: its first touch shows what pointing shows, its second follows the link.
addEventListener("click", function (event) {
  var field = event.target.closest && event.target.closest(".heat .field");
  var shown = field && field.classList.contains("pointed");
  document.querySelectorAll(".heat .pointed").forEach(function (other) { other.classList.remove("pointed"); });
  if (field && event.pointerType === "touch" && !shown) {
    event.preventDefault();
    field.classList.add("pointed");
  }
});
// Above a table that goes on to the right stands that it does, as long as its end is not in view.
function tellMore(region) {
  var goesOn = getComputedStyle(region).overflowX !== "visible" &&
    region.scrollLeft + region.clientWidth < region.scrollWidth - 1;
  var hint = region.previousElementSibling;
  if (!hint || !hint.classList.contains("more")) {
    if (!goesOn) return;
    hint = document.createElement("p");
    hint.className = "more";
    hint.setAttribute("aria-hidden", "true");
    hint.textContent = "scroll to the right for more \u2192";
    region.parentNode.insertBefore(hint, region);
  }
  // Its place stays, so that nothing moves below a finger.
  hint.style.visibility = goesOn ? "visible" : "hidden";
}
function tellAllMore() {
  document.querySelectorAll(".scroll").forEach(tellMore);
}
["load", "resize"].forEach(function (name) { addEventListener(name, tellAllMore); });
document.addEventListener("toggle", tellAllMore, true);
document.addEventListener("scroll", function (event) {
  if (event.target.classList && event.target.classList.contains("scroll")) tellMore(event.target);
}, true);
// Tables are sorted by a button in the heading of each column: numbers by what stands in data-by, the unknown last.
function sortKey(row, column) {
  var cell = row.cells[column];
  var by = cell.getAttribute("data-by");
  var text = by === null ? cell.textContent.trim() : by;
  var number = text === "" ? NaN : Number(text.replace(/[\u00a0\u202f ]/g, "").replace("\u2212", "-"));
  return { text: text, number: number };
}
function sortTable(table, heading) {
  var down = heading.getAttribute("aria-sort") === "ascending";
  var column = [].indexOf.call(heading.parentNode.cells, heading);
  var body = table.tBodies[0];
  var rows = [].map.call(body.rows, function (row, place) { return { row: row, place: place, key: sortKey(row, column) }; });
  var numeric = rows.every(function (r) { return r.key.text === "" || !isNaN(r.key.number); });
  rows.sort(function (a, b) {
    if (!a.key.text !== !b.key.text) return a.key.text ? -1 : 1;
    var order = numeric ? a.key.number - b.key.number : a.key.text.localeCompare(b.key.text, "en", { numeric: true });
    return (down ? -order : order) || a.place - b.place;
  });
  rows.forEach(function (r) { body.appendChild(r.row); });
  [].forEach.call(heading.parentNode.cells, function (cell) { cell.removeAttribute("aria-sort"); });
  heading.setAttribute("aria-sort", down ? "descending" : "ascending");
}
document.querySelectorAll("table.sortable").forEach(function (table) {
  [].forEach.call(table.tHead.rows[0].cells, function (heading) {
    var button = document.createElement("button");
    button.type = "button";
    button.title = "Sort by this column";
    while (heading.firstChild) button.appendChild(heading.firstChild);
    heading.appendChild(button);
    button.addEventListener("click", function () { sortTable(table, heading); });
  });
});
// Filters show the rows that hold every word.
document.querySelectorAll("input[data-filters]").forEach(function (input) {
  var table = document.getElementById(input.getAttribute("data-filters"));
  var place = input.closest(".filter");
  var status = place.querySelector("[role=status]");
  place.hidden = false;
  input.addEventListener("input", function () {
    var words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    var shown = 0;
    [].forEach.call(table.tBodies[0].rows, function (row) {
      var text = row.textContent.toLowerCase();
      row.hidden = !words.every(function (word) { return text.indexOf(word) >= 0; });
      if (!row.hidden) shown += 1;
    });
    status.textContent = words.length ? shown + " of " + table.tBodies[0].rows.length : "";
  });
});
// Surfaces turn: by dragging, or with the slider below, which keys and fingers move too.
function turnSurface(surface, turned, above) {
  var view = surface.getAttribute("data-view").split(" ").map(Number);
  var a = turned * Math.PI / 180, b = above * Math.PI / 180;
  var shapes = [].map.call(surface.querySelectorAll("[data-p]"), function (shape) {
    var near = 0;
    var seen = shape.getAttribute("data-p").split(" ").map(function (point) {
      var p = point.split(",").map(Number);
      var right = p[0] * Math.cos(a) - p[1] * Math.sin(a), close = p[0] * Math.sin(a) + p[1] * Math.cos(a);
      near += close;
      return [view[0] / 2 + view[2] * right, view[1] * 0.64 + view[2] * close * Math.sin(b) - view[3] * p[2] * Math.cos(b)];
    });
    if (shape.tagName === "text") {
      shape.setAttribute("x", seen[0][0].toFixed(1));
      shape.setAttribute("y", seen[0][1].toFixed(1));
      return { shape: shape, depth: 9 };
    }
    shape.setAttribute("d", "M" + seen.map(function (p) { return p[0].toFixed(1) + " " + p[1].toFixed(1); }).join("L"));
    return { shape: shape, depth: shape.classList.contains("facet") ? near / seen.length : -9 };
  });
  shapes.sort(function (x, y) { return x.depth - y.depth; });
  shapes.forEach(function (s) { surface.appendChild(s.shape); });
}
document.querySelectorAll("g.surface").forEach(function (surface) {
  var view = surface.getAttribute("data-view").split(" ").map(Number);
  var turned = view[4], above = view[5];
  var picture = surface.closest("svg");
  var slider = document.createElement("input");
  slider.type = "range";
  slider.min = -180;
  slider.max = 180;
  slider.step = 5;
  slider.value = turned;
  slider.className = "turn";
  slider.setAttribute("aria-label", "Turn the surface, degrees");
  picture.parentNode.appendChild(slider);
  function show() { turnSurface(surface, turned, above); }
  slider.addEventListener("input", function () { turned = Number(slider.value); show(); });
  picture.addEventListener("pointerdown", function (down) {
    var x = down.clientX, y = down.clientY;
    function move(event) {
      turned = ((turned - (event.clientX - x) * 0.5 + 540) % 360) - 180;
      above = Math.min(85, Math.max(5, above + (event.clientY - y) * 0.3));
      x = event.clientX;
      y = event.clientY;
      slider.value = turned;
      show();
    }
    function up() {
      removeEventListener("pointermove", move);
      removeEventListener("pointerup", up);
      removeEventListener("pointercancel", up);
    }
    addEventListener("pointermove", move);
    addEventListener("pointerup", up);
    addEventListener("pointercancel", up);
  });
});
// Perfetto's viewer is opened when it is asked for, and at no other time. It says PONG when it can take a trace, which stays in this
// browser (Perfetto's documentation: Deep linking to Perfetto UI).
document.querySelectorAll("button.perfetto").forEach(function (button) {
  var perfetto = button.getAttribute("data-viewer");
  var link = button.parentNode.querySelector("a[download]");
  button.hidden = false;
  button.addEventListener("click", function () {
    var viewer = window.open(perfetto);
    if (!viewer) return;
    var asking = setInterval(function () {
      if (viewer.closed) stop();
      else viewer.postMessage("PING", perfetto);
    }, 50);
    function stop() {
      clearInterval(asking);
      removeEventListener("message", answered);
    }
    function answered(event) {
      if (event.origin !== perfetto || event.data !== "PONG") return;
      stop();
      var bytes = Uint8Array.from(atob(link.href.split(",")[1]), function (c) { return c.charCodeAt(0); });
      viewer.postMessage({ perfetto: { buffer: bytes.buffer, title: document.title, fileName: link.download } }, perfetto);
    }
    addEventListener("message", answered);
  });
});
openLinked();
