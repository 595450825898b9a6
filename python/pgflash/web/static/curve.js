// SPDX-License-Identifier: PostgreSQL
// The miss-ratio curve: sizes on a logarithmic axis, the current one marked by a line and a word.

import {mark} from "./format.js";

const figure = document.querySelector("#curve");
const holder = figure.querySelector(".plot");
let {sizes, labels, ratios, present, colour} = says();
let places = sizes.map(Math.log2);
const style = getComputedStyle(holder);
const ink = () => style.getPropertyValue("--ink"), faint = () => style.getPropertyValue("--faint");
const grid = {stroke: () => style.getPropertyValue("--grid"), width: 1};
const font = "12px system-ui, sans-serif";

/** Return the curve's data from the element around its table, which is replaced from time to time. */
function says() {
    return JSON.parse(document.querySelector("[data-curve]").dataset.curve);
}

function drawPresent(plot) {
    if (!present) return;
    const {ctx, bbox} = plot;
    const x = plot.valToPos(Math.log2(present), "x", true);
    const right = x < bbox.left + bbox.width / 2;
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = ink();
    ctx.lineWidth = 2 * devicePixelRatio;
    ctx.setLineDash([8 * devicePixelRatio, 4 * devicePixelRatio]);
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    ctx.font = `${12 * devicePixelRatio}px system-ui, sans-serif`;
    ctx.textAlign = right ? "left" : "right";
    ctx.textBaseline = "top";
    ctx.fillText("present size", x + (right ? 6 : -6) * devicePixelRatio, bbox.top + 4 * devicePixelRatio);
    ctx.restore();
}

holder.hidden = false;
const width = () => Math.max(holder.clientWidth, 160);
const plot = new uPlot({
    width: width(),
    height: 220,
    legend: {show: false},
    cursor: {show: false},
    scales: {x: {time: false}, y: {range: (_plot, _low, high) => [0, Math.max(high ?? 0, 1) * 1.05]}},
    axes: [
        {stroke: faint, grid, font, size: 30, ticks: {show: false}, splits: () => places,
         values: (_plot, splits) => splits.map(one => labels[places.indexOf(one)]
             && (width() > 500 || places.indexOf(one) % 2 === 1) ? labels[places.indexOf(one)] : "")},
        {stroke: faint, grid, font, ticks: {show: false}, size: 52, values: (_plot, marks) => marks.map(mark)},
    ],
    series: [{}, {label: "Miss ratio", stroke: colour, width: 2, points: {show: true, size: 6}}],
    hooks: {draw: [drawPresent]},
}, [places, ratios], holder);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => plot.redraw(false));
new ResizeObserver(() => plot.setSize({width: width(), height: 220})).observe(holder);
document.addEventListener("refreshed", () => {
    ({sizes, labels, ratios, present, colour} = says());
    places = sizes.map(Math.log2);
    plot.setData([places, ratios]);
});
