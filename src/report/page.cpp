#include "report/page.h"

#include "report/html.h"

namespace mantissa {
namespace {

// Colours of runs: Okabe and Ito's, which all kinds of colour vision tell apart; dashes beside
// them.
constexpr const char* kStyle = R"css(
:root { color-scheme: light dark; --back: #fff; --text: #1c1e21; --dim: #5c6370; --line: #d9dce1;
  --panel: #f6f7f9; --hit: 0 114 178; --run0: #0072b2; --run1: #d55e00; --run2: #00805e;
  --run3: #a84f86; --run4: #8a6a00; --run5: #3a3f47; }
@media (prefers-color-scheme: dark) { :root { --back: #16181c; --text: #e6e8eb; --dim: #9aa2ae;
  --line: #363b43; --panel: #1e2126; --hit: 86 180 233; --run0: #56b4e9; --run1: #ff8f4a;
  --run2: #35c79a; --run3: #e79ac6; --run4: #f0c33c; --run5: #c3c9d1; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1180px; padding: 24px; background: var(--back);
  color: var(--text); font: 15px/1.5 system-ui, "DejaVu Sans", sans-serif; }
h1 { font-size: 26px; margin: 0 0 4px; } h2 { font-size: 19px; margin: 36px 0 10px; }
h3 { font-size: 15px; margin: 18px 0 6px; } p { margin: 6px 0; } .dim { color: var(--dim); }
code, pre { font: 13px/1.5 ui-monospace, "DejaVu Sans Mono", monospace; }
pre { background: var(--panel); padding: 10px 12px; border-radius: 6px; overflow-x: auto; }
.grid { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 440px), 1fr));
  gap: 18px 24px; }
figure { margin: 0; break-inside: avoid; position: relative; }
figcaption { font-weight: 600; font-size: 14px; }
.chart > svg { width: 100%; height: auto; display: block; touch-action: pan-y; }
.chart text { fill: var(--dim); font-size: 11.5px; }
.grid-line, line.grid { stroke: var(--line); } line.axis { stroke: var(--dim); }
line.cursor { stroke: var(--dim); stroke-dasharray: 2 3; }
path.curve { fill: none; stroke-width: 1.8; stroke-linejoin: round; stroke-linecap: round; }
.run0 { stroke: var(--run0); } .run1 { stroke: var(--run1); stroke-dasharray: 7 4; }
.run2 { stroke: var(--run2); stroke-dasharray: 2 4; }
.run3 { stroke: var(--run3); stroke-dasharray: 10 3 2 3; }
.run4 { stroke: var(--run4); stroke-dasharray: 5 2; }
.run5 { stroke: var(--run5); stroke-dasharray: 1 5; }
circle.mark { fill: var(--back); stroke-width: 1.8; stroke-dasharray: none; }
.legend span { white-space: nowrap; margin-right: 14px; font-size: 13px; }
.value { font-size: 12.5px; color: var(--dim); min-height: 1.5em; font-variant-numeric: tabular-nums; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: 13.5px; font-variant-numeric: tabular-nums; }
th, td { padding: 3px 12px 3px 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th { text-align: left; font-weight: 600; } tbody th { font-weight: 400; color: var(--dim); }
.numbers td, .numbers thead th + th { text-align: right; }
.confusion td { text-align: right; padding: 3px 7px; border: 0; }
.confusion thead th { font-weight: 400; color: var(--dim); padding: 3px 7px; text-align: right; }
.confusion tbody th { white-space: nowrap; }
.bar { display: grid; grid-template-columns: 150px 1fr 90px; gap: 10px; align-items: center;
  font-size: 13.5px; } .bar i { display: block; height: 12px; border-radius: 2px; }
.planned { background: var(--dim); } .measured { background: var(--run0); }
.layers { display: grid; grid-template-columns: minmax(90px, 170px) repeat(3, 1fr); gap: 0 14px; }
.layers.histograms { grid-template-columns: repeat(3, 1fr); }
.layers ol { list-style: none; margin: 21px 0 0; padding: 0; font-size: 11px; line-height: 14px;
  text-align: right; } .layers li { white-space: nowrap; overflow: hidden; text-overflow: ellipsis;
  height: 14px; color: var(--dim); }
.heat img { width: 100%; display: block; image-rendering: pixelated; }
.ends { display: flex; justify-content: space-between; font-size: 11px; color: var(--dim);
  margin: 2px 0; }
.scale { display: flex; gap: 8px; align-items: center; font-size: 11px; color: var(--dim); }
.scale i { flex: 1; height: 8px; border-radius: 2px; }
.pictures { display: grid; grid-template-columns: repeat(auto-fill, minmax(132px, 1fr)); gap: 14px; }
.pictures img { width: 96px; height: 96px; object-fit: contain; image-rendering: pixelated;
  background: var(--panel); } .pictures figcaption { font-size: 12px; font-weight: 400; }
details > summary { cursor: pointer; margin: 8px 0; }
.problems { border-left: 3px solid var(--run1); padding-left: 12px; }
:focus-visible { outline: 2px solid var(--run0); outline-offset: 2px; }
@media print { body { max-width: none; padding: 0; } h2 { break-after: avoid; }
  .value { display: none; } * { print-color-adjust: exact; -webkit-print-color-adjust: exact; } }
)css";

// Shows the numbers under the pointer, or moved to by the arrow keys. The page is whole without it.
constexpr const char* kScript = R"js(
'use strict';
const text = (value, percent) => value === null ? '-' :
  percent ? (100 * value).toPrecision(4) + ' %' : Number(value.toPrecision(5)).toString();
const nearest = (list, x) => list.reduce((best, at, i) =>
  Math.abs(at - x) < Math.abs(list[best] - x) ? i : best, 0);
const keys = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1]};
for (const figure of document.querySelectorAll('figure.chart')) {
  const data = JSON.parse(figure.querySelector('script').textContent), f = data.frame;
  const svg = figure.querySelector('svg'), cursor = svg.querySelector('.cursor');
  const steps = [...new Set(data.curves.flatMap(c => c.x))].sort((a, b) => a - b);
  let at = steps.length - 1;
  const show = () => {
    const step = steps[at], x = f.left + (step - f.low) / (f.high - f.low) * (f.right - f.left);
    for (const [name, value] of [['x1', x], ['x2', x], ['y1', f.top], ['y2', f.bottom]])
      cursor.setAttribute(name, value);
    cursor.removeAttribute('hidden');
    figure.querySelector('.value').textContent = 'step ' + step + ': ' + data.curves.map(c =>
      (data.curves.length > 1 ? c.name + ' ' : '') +
      text(c.y[nearest(c.x, step)], f.percent)).join(', ');
  };
  svg.addEventListener('pointermove', event => {
    const box = svg.getBoundingClientRect();
    const x = (event.clientX - box.left) / box.width * f.width;
    at = nearest(steps, f.low + (x - f.left) / (f.right - f.left) * (f.high - f.low));
    show();
  });
  svg.addEventListener('keydown', event => {
    if (!keys[event.key]) return;
    event.preventDefault();
    at = Math.min(steps.length - 1, Math.max(0, at + keys[event.key][0] - keys[event.key][1]));
    show();
  });
}
for (const figure of document.querySelectorAll('figure.heat')) {
  const data = JSON.parse(figure.querySelector('script').textContent);
  const picture = figure.querySelector('img');
  let row = 0, column = data.steps.length - 1;
  const show = () => figure.querySelector('.value').textContent =
    data.rows[row] + ', step ' + data.steps[column] + ': ' +
    text(data.values[row][column], data.rate);
  const inside = (part, count) => Math.min(count - 1, Math.max(0, Math.floor(part * count)));
  picture.addEventListener('pointermove', event => {
    const box = picture.getBoundingClientRect();
    column = inside((event.clientX - box.left) / box.width, data.steps.length);
    row = inside((event.clientY - box.top) / box.height, data.rows.length);
    show();
  });
  picture.addEventListener('keydown', event => {
    if (!keys[event.key]) return;
    event.preventDefault();
    column = Math.min(data.steps.length - 1, Math.max(0, column + keys[event.key][0]));
    row = Math.min(data.rows.length - 1, Math.max(0, row + keys[event.key][1]));
    show();
  });
}
)js";

}  // namespace

std::string page(const std::string& title, const std::string& body) {
  return "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
         "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src "
         "data:; "
         "style-src 'unsafe-inline'; script-src 'unsafe-inline'\"/>\n"
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
         "<title>" +
         escaped(title) + "</title>\n<style>" + kStyle + "</style>\n</head>\n<body>\n" + body +
         "<script>" + kScript + "</script>\n</body>\n</html>\n";
}

}  // namespace mantissa
