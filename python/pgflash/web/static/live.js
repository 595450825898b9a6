// SPDX-License-Identifier: PostgreSQL
// The live page: its charts follow the server, at most once a frame, and only while it is visible.

import {Chart} from "./chart.js";
import {Feed} from "./feed.js";
import {clock, parseTime, zone} from "./format.js";
import {Repository} from "./repository.js";
import {TimeRange} from "./range.js";

const banner = document.querySelector("#status");
const pause = document.querySelector("#pause");
const range = document.querySelector("#range");
const result = document.querySelector("#headline[data-live]");
const panel = document.querySelector("#time-range");

// A longer range comes from the repository.
const LIVE_S = 900;

// A browser has six connections to us for all its tabs, so a hidden tab closes its stream.
const HIDDEN_MS = 60000;

let leaving = 0;
let charts = [];
let waiting = false;
let paused = null;
let notice = null;

const feed = new Feed((kind, data) => {
    if (kind === "status") say(data);
    if (kind === "gap") note("Some samples are missing: this page was suspended for too long.");
    if (kind === "clock") note("The server's clock was set back: earlier samples are not shown.");
    if (kind === "notice") notice = {...data, x: parseTime(data.at).seconds};
    if (kind === "sample") headline(data);
    draw();
});
const past = new Repository(feed, () => draw(), words => note(words));
const timeRange = panel ? new TimeRange(panel, feed, () => draw()) : null;

/** Show the state of the server. */
function say({state, page}) {
    write("#status", state === "live" ? "" : page);
    if (state !== "live") write("#headline[data-live]", "");
    banner.className = state;
    document.body.dataset.state = state;
}

/** Show the newest sample's headline. */
function headline(sample) {
    const at = document.querySelector("#at");
    if (at) at.textContent = `${clock(sample.x, feed.offset)} ${zone(feed.offset)}`;
    if (result) result.textContent = sample.headline;
}

function note(sentence) {
    write("#note", sentence);
}

/** Write a sentence if it is not there yet: otherwise screen readers would read it again. */
function write(place, sentence) {
    const found = document.querySelector(place);
    if (found && found.textContent !== sentence) found.textContent = sentence;
}

/** Show a change of the server while the charts may show samples from before it. */
function remind(newest) {
    if (notice && newest.x - notice.x > LIVE_S) notice = null;
    write("#notice", notice ? `${clock(notice.x, feed.offset)} ${zone(feed.offset)}: ${notice.sentence}` : "");
}

/** Name the part of the charts that comes from the repository. */
function cite(samples) {
    const first = (paused ?? feed.samples)[0];
    const old = first && samples.length && samples[0].x < first.x;
    write("#source", old
        ? `What is before ${clock(first.x, feed.offset)} ${zone(feed.offset)} comes from the snapshots, a point for each interval between two.`
        : "");
}

function seconds() {
    return Number(range?.value ?? 300);
}

/** Return the samples of the chosen last minutes, hours or days. */
function recent() {
    const samples = paused ?? feed.samples;
    const newest = samples.at(-1);
    if (newest && seconds() > LIVE_S) return past.before(samples, seconds());
    return newest ? samples.filter(one => one.x > newest.x - seconds()) : [];
}

function draw() {
    if (waiting || document.hidden) return;
    waiting = true;
    requestAnimationFrame(() => {
        waiting = false;
        const samples = recent();
        const all = past.all(paused ?? feed.samples);
        for (const chart of charts) chart.show(samples, all, paused !== null || feed.live);
        cite(samples);
        if (samples.length) remind(samples.at(-1));
        timeRange?.follow(samples, seconds());
        const told = {first: samples[0]?.number, number: samples.at(-1)?.number, count: samples.length};
        for (const [name, value] of Object.entries(told)) document.body.dataset[name] = value ?? "";
    });
}

function leave() {
    leaving = setTimeout(() => feed.rest(), HIDDEN_MS);
}

pause?.addEventListener("click", () => {
    paused = paused ? null : [...feed.samples];
    pause.setAttribute("aria-pressed", String(paused !== null));
    draw();
});
range?.addEventListener("change", () => {
    note("");
    timeRange?.keep("last", range.value === "300" ? "" : range.value);
    draw();
});
document.addEventListener("visibilitychange", () => {
    clearTimeout(leaving);
    if (document.hidden) leave();
    else feed.wake();
    draw();
});

// A page of the flash cache that was served without data has no place for them.
if (document.querySelector("[data-empty]")) {
    document.addEventListener("refreshed", () => {
        if (!document.querySelector("[data-empty]")) location.reload();
    });
}

const last = new URLSearchParams(location.search).get("last");
if (range && [...range.options].some(one => one.value === last)) range.value = last;
charts = [...document.querySelectorAll("[data-figure]")].map(one => new Chart(one, timeRange, feed));
document.body.classList.add("alive");
feed.begin();
if (document.hidden) leave(); // opened in the background
