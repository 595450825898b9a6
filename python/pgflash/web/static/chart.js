// SPDX-License-Identifier: PostgreSQL
// One chart: the figure that its data-figure describes, drawn by uPlot.
//
// Areas have the hatchings and lines the dashes of the reports, so nothing depends on colour alone.
// A time range is selected by dragging, with a mouse or a finger, or by the keyboard: arrows move the
// mark, Shift and arrows widen the range, Escape clears it.  The values are also in the figure's
// table, which the chart fills.

import {clock, isoTime, mark, number} from "./format.js";

const HEIGHT = 320;
const TILE = 8;
// Samples further apart than this many times their length are not connected.
const GAP = 2.5;
// A finger that moves less than this does not select.
const TOUCH_MIN_PX = 8;
const DARK = matchMedia("(prefers-color-scheme: dark)");

/** Return a line's value in a sample, as value_of() in figures.py does. */
export function valueOf(line, sample) {
    let found = sample;
    for (const name of line.path) {
        if (found === null || typeof found !== "object") return null;
        found = found[name] ?? null;
    }
    if (found === null && line.path[0] === "aas" && sample.aas) return 0;
    return found === null ? null : found / line.divisor;
}

/** Return one figure for several samples: the mean, weighted by time, or the highest. */
export function over(line, samples, how) {
    let sum = 0, elapsed = 0, highest = null;
    for (const sample of samples) {
        const value = valueOf(line, sample);
        if (value === null) continue;
        sum += value * sample.elapsed_s;
        elapsed += sample.elapsed_s;
        highest = highest === null ? value : Math.max(highest, value);
    }
    return how === "highest" ? highest : elapsed > 0 ? sum / elapsed : null;
}

export class Chart {
    /** RANGE is common to all charts of the page; null if no range can be selected. */
    constructor(figure, timeRange, feed) {
        this.says = JSON.parse(figure.dataset.figure);
        this.figure = figure;
        this.timeRange = timeRange;
        this.feed = feed;
        this.holder = figure.querySelector(".plot");
        this.readout = figure.querySelector(".readout");
        this.cells = [...figure.querySelectorAll("tbody tr")].map(row => [...row.querySelectorAll("td")]);
        this.shown = [];
        this.dragging = false;
        this.at = null;
        this.anchor = null;
        this.holder.hidden = false;
        this.tiles = new Map();
        this.plot = this.make();
        this.listen();
        this.paint();
        DARK.addEventListener("change", () => {
            this.paint();
            if (this.shown.length) this.plot.redraw(false);
        });
        new ResizeObserver(() => this.plot.setSize({width: this.width(), height: HEIGHT})).observe(this.holder);
    }

    width() {
        return Math.max(this.holder.clientWidth, 160);
    }

    // ---- looks

    colour(name) {
        return getComputedStyle(this.holder).getPropertyValue(name).trim();
    }

    stroke(line) {
        return DARK.matches ? line.stroke_on_dark : line.stroke;
    }

    /** Colour the lines, and their pictures in the table, for the page's background. */
    paint() {
        const pictures = this.figure.querySelectorAll("tbody th path[stroke]");
        pictures.forEach((picture, i) => picture.setAttribute("stroke", this.stroke(this.says.lines[i])));
    }

    /** Return the hatching of a line as a pattern for the canvas. */
    tile(line) {
        const ratio = Math.max(Math.round(devicePixelRatio), 1);
        const key = `${line.name} ${ratio}`;
        if (!this.tiles.has(key)) {
            const canvas = document.createElement("canvas");
            canvas.width = canvas.height = TILE * ratio;
            const brush = canvas.getContext("2d");
            brush.scale(ratio, ratio);
            brush.fillStyle = line.fill;
            brush.fillRect(0, 0, TILE, TILE);
            brush.strokeStyle = line.hatching_colour;
            brush.lineWidth = 1.2;
            brush.stroke(new Path2D(line.hatching));
            this.tiles.set(key, brush.createPattern(canvas, "repeat"));
        }
        return this.tiles.get(key);
    }

    make() {
        const {lines, stacked, logarithmic, limit} = this.says;
        const series = (stacked ? [...lines].reverse() : lines).map(line => ({
            label: line.name,
            width: stacked ? 0.5 : 2,
            stroke: stacked ? line.hatching_colour : () => this.stroke(line),
            fill: stacked ? () => this.tile(line) : undefined,
            dash: stacked || !line.dashes ? undefined : line.dashes.split(" ").map(Number),
            points: stacked ? {show: false} : {size: 4},
            paths: stacked ? uPlot.paths.stepped({align: -1}) : undefined,
        }));
        const axis = {
            stroke: () => this.colour("--faint"),
            grid: {stroke: () => this.colour("--grid"), width: 1},
            ticks: {show: false},
            font: "12px system-ui, sans-serif",
        };
        return new uPlot({
            width: this.width(),
            height: HEIGHT,
            legend: {show: false},
            tzDate: seconds => uPlot.tzDate(new Date((seconds + this.feed.offset) * 1000), "Etc/UTC"),
            cursor: {
                y: false,
                drag: {x: this.timeRange !== null, y: false, setScale: false},
                sync: {key: "page", scales: ["x", null]},
                points: {show: !stacked},
            },
            scales: {
                x: {time: true},
                y: logarithmic
                    ? {distr: 3}
                    : {range: (_plot, _low, high) => [0, 1.05 * Math.max(high ?? 0, limit ? limit[0] : 0) || 1]},
            },
            axes: [
                {...axis, size: 30, space: 84, values: (_plot, marks) => this.times(marks)},
                {...axis, size: 52, values: (_plot, marks) => marks.map(mark)},
            ],
            series: [{}, ...series],
            hooks: {
                draw: [plot => this.drawLimit(plot), plot => this.drawLabels(plot)],
                setSelect: [plot => this.marked(plot)],
                setCursor: [plot => this.pointed(plot)],
            },
        }, this.columns([]), this.holder);
    }

    /** Return labels of the time axis, with only the parts of the time that differ. */
    times(marks) {
        const step = marks.length > 1 ? marks[1] - marks[0] : 1;
        const [begin, end] = step >= 86400 ? [5, 10] : step >= 60 ? [11, 16] : [11, 19];
        const long = this.shown.length > 0 && this.shown.at(-1).x - this.shown[0].x > 86400;
        return marks.map(at => isoTime(at, this.feed.offset).slice(long ? 5 : begin, end).replace("T", " "));
    }

    drawLimit(plot) {
        if (!this.says.limit) return;
        const [height, name] = this.says.limit;
        const {ctx, bbox} = plot;
        const y = plot.valToPos(height, "y", true);
        ctx.save();
        ctx.strokeStyle = ctx.fillStyle = this.colour("--ink");
        ctx.lineWidth = 2 * devicePixelRatio;
        ctx.setLineDash([8 * devicePixelRatio, 4 * devicePixelRatio]);
        ctx.beginPath();
        ctx.moveTo(bbox.left, y);
        ctx.lineTo(bbox.left + bbox.width, y);
        ctx.stroke();
        this.write(plot, name, bbox.left + 6 * devicePixelRatio, y - 10 * devicePixelRatio, "left");
        ctx.restore();
    }

    /** Write text on a plain background, so that it is readable on hatchings. */
    write({ctx}, words, x, y, align) {
        const ratio = devicePixelRatio;
        ctx.font = `${12 * ratio}px system-ui, sans-serif`;
        const wide = ctx.measureText(words).width + 6 * ratio;
        ctx.fillStyle = this.colour("--card");
        ctx.fillRect(align === "left" ? x - 3 * ratio : x - wide + 3 * ratio, y - 8 * ratio, wide, 16 * ratio);
        ctx.fillStyle = this.colour("--ink");
        ctx.textAlign = align;
        ctx.textBaseline = "middle";
        ctx.fillText(words, x, y);
    }

    /** Write each label at the end of the highest of its lines, without overlaps. */
    drawLabels(plot) {
        const {ctx, bbox} = plot;
        const ends = new Map();
        this.says.lines.forEach(({label}, i) => {
            const value = label ? plot.data[i + 1].findLast(one => one > 0) : null;
            if (value) ends.set(label, Math.max(value, ends.get(label) ?? 0));
        });
        const step = 18 * devicePixelRatio;
        let y = bbox.top - step / 2;
        ctx.save();
        for (const [label, value] of [...ends].sort(([, a], [, b]) => b - a)) {
            y = Math.max(y + step, plot.valToPos(value, "y", true) - step / 2);
            this.write(plot, label, bbox.left + bbox.width - 6 * devicePixelRatio, y, "right");
        }
        ctx.restore();
    }

    // ---- values

    /** Return uPlot's data: times, then a column for each series, with null for no value. */
    columns(samples) {
        const {lines, stacked} = this.says;
        const moments = [];
        const columns = lines.map(() => []);
        let before = null;
        for (const sample of samples) {
            if (before !== null && sample.x - before > GAP * Math.max(sample.elapsed_s, 1)) {
                moments.push(before + 0.001);
                columns.forEach(column => column.push(null));
            }
            before = sample.x;
            moments.push(sample.x);
            lines.forEach((line, i) => columns[i].push(valueOf(line, sample)));
        }
        if (!stacked) return [moments, ...columns];
        for (let i = 1; i < columns.length; i++) {
            columns[i] = columns[i].map((value, k) =>
                value === null && columns[i - 1][k] === null ? null : (value ?? 0) + (columns[i - 1][k] ?? 0));
        }
        return [moments, ...columns.reverse()];
    }

    /** Draw these samples, the newest of ALL; LIVE: the last one is the current one. */
    show(samples, all, live) {
        this.shown = this.says.past ? this.timeRange.spans : samples;
        this.fill(all, live);
        if (this.dragging || document.hidden) return;
        this.plot.setData(this.columns(this.shown));
        this.place();
    }

    /** Fill the table with the current values and those of the range; it may have left the chart. */
    fill(all, live) {
        const newest = live ? this.shown.at(-1) : null;
        const {past} = this.says;
        const inside = !past && this.timeRange?.isMarked ? this.timeRange.within(all) : this.shown;
        this.says.lines.forEach((line, i) => {
            const timeRange = this.cells[i].at(-1), now = past ? null : this.cells[i][0];
            if (now) now.textContent = newest ? number(valueOf(line, newest)) : number(null);
            timeRange.textContent = number(over(line, inside, this.says.over));
        });
    }

    // ---- a time range

    /** Move the selection to where its time is in the chart now. */
    place() {
        const {plot, timeRange} = this;
        // A chart of only the selected range has no selection in it.
        if (!timeRange || this.says.past) return;
        this.holder.classList.toggle("marked", timeRange.isMarked);
        if (!timeRange.isMarked) {
            plot.setSelect({left: 0, top: 0, width: 0, height: 0}, false);
            return;
        }
        const wide = plot.over.clientWidth;
        const left = Math.min(Math.max(plot.valToPos(timeRange.from, "x"), 0), wide);
        const right = Math.min(Math.max(plot.valToPos(timeRange.to, "x"), 0), wide);
        plot.setSelect({left, top: 0, width: right - left, height: plot.over.clientHeight}, false);
    }

    marked(plot) {
        const {left, width} = plot.select;
        if (!this.dragging || width < 2) return;
        this.timeRange.mark(plot.posToVal(left, "x"), plot.posToVal(left + width, "x"));
    }

    pointed(plot) {
        if (this.at === null) this.read(plot.cursor.idx);
    }

    /** Show the values at a position as text. */
    read(place) {
        const at = place === null || place === undefined ? null : this.plot.data[0][place];
        const sample = at === null ? null : this.shown.find(one => one.x === at);
        if (!sample) {
            this.readout.textContent = "";
            return;
        }
        const words = this.says.lines
            .map(line => [line.name, valueOf(line, sample)])
            .filter(([, value]) => value)
            .map(([name, value]) => `${name} ${number(value)}`);
        this.readout.textContent = `${clock(at, this.feed.offset)}: ${words.join(", ") || "nothing"}`;
    }

    listen() {
        const {holder, plot} = this;
        plot.over.addEventListener("mousedown", ({button, clientX: begin}) => {
            if (button !== 0) return; // a menu, or a scroll
            this.dragging = this.timeRange !== null;
            addEventListener("mouseup", ({clientX: end}) => setTimeout(() => {
                // A click clears the selection.
                if (this.dragging && Math.abs(end - begin) < 2) this.timeRange.clear();
                this.dragging = false;
            }), {once: true});
        });
        if (!this.timeRange) return;
        plot.over.addEventListener("pointerdown", event => {
            if (event.pointerType === "touch" && event.isPrimary) this.touched(event);
        });
        holder.tabIndex = 0;
        holder.addEventListener("keydown", event => this.pressed(event));
        // The mark moves in all charts; only the focused one announces it to screen readers.
        holder.addEventListener("focus", () => this.readout.setAttribute("aria-live", "polite"));
        holder.addEventListener("blur", () => {
            this.readout.setAttribute("aria-live", "off");
            this.at = this.anchor = null;
        });
    }

    /** Select by a finger that moves sideways; the browser scrolls the page if it moves up or down. */
    touched({clientX: begin}) {
        const {over} = this.plot;
        const place = event => {
            const {left, width} = over.getBoundingClientRect();
            return [begin, event.clientX].map(x => Math.min(Math.max(x - left, 0), width)).sort((a, b) => a - b);
        };
        const ended = new AbortController();
        over.addEventListener("pointermove", event => {
            const [left, right] = place(event);
            this.dragging = right - left >= TOUCH_MIN_PX;
            if (this.dragging) this.plot.setSelect({left, top: 0, width: right - left, height: over.clientHeight}, false);
        }, ended);
        const end = event => {
            ended.abort();
            const [left, right] = place(event);
            const marks = this.dragging && event.type === "pointerup";
            this.dragging = false;
            if (marks) this.timeRange.mark(this.plot.posToVal(left, "x"), this.plot.posToVal(right, "x"));
            else this.place();
        };
        over.addEventListener("pointerup", end, ended);
        over.addEventListener("pointercancel", end, ended);
    }

    pressed(event) {
        const steps = {ArrowLeft: -1, ArrowRight: 1, PageUp: -30, PageDown: 30, Home: -Infinity, End: Infinity};
        if (event.key === "Escape") {
            this.anchor = null;
            this.timeRange.clear();
        } else if (event.key in steps && this.shown.length && !event.altKey && !event.ctrlKey && !event.metaKey) {
            this.step(steps[event.key], event.shiftKey);
        } else {
            return;
        }
        event.preventDefault();
    }

    /** Move the mark by this many samples; WIDEN selects the range from where it began. */
    step(count, widen) {
        const last = this.shown.length - 1;
        let place = this.shown.findIndex(one => one.x === this.at);
        if (place < 0) place = last;
        if (widen && this.anchor === null) this.anchor = this.shown[place].x;
        if (!widen) this.anchor = null;
        const to = this.shown[Math.min(Math.max(place + count, 0), last)];
        this.at = to.x;
        this.plot.setCursor({left: this.plot.valToPos(this.at, "x"), top: 10});
        this.read(this.plot.data[0].indexOf(this.at));
        if (widen && this.anchor !== this.at) {
            this.timeRange.mark(Math.min(this.anchor, this.at), Math.max(this.anchor, this.at));
        }
    }
}
