// SPDX-License-Identifier: PostgreSQL
// The selected time range, for all charts and tables of the page.
//
// Its two times are in a form that works without scripts.  Here a selection fills the form, and the
// activity of sessions in the range is fetched into the tables below, all of it as text.  While
// nothing is selected, the tables follow the charts in steps of ten seconds of the server's clock, or
// longer steps if answers take long (again_s).  So viewers of the same minutes send the same request,
// and the server is queried once for all of them.

import {clock, isoTime, number, parseTime, percent, zone} from "./format.js";
import {root} from "./root.js";

const SETTLED_MS = 300;
const STEP_S = 10;
// The filters of a page.
const FILTERS = ["query", "session", "wait", "relation", "user", "database", "application", "client"];
const UNNAMED = ["without an identifier", "all others together", "without a name"];

export class TimeRange {
    /** CHANGED is called after every change of the range. */
    constructor(panel, feed, changed) {
        this.panel = panel;
        this.feed = feed;
        this.changed = changed;
        this.from = this.to = null;
        this.timer = 0;
        this.asked = 0;
        this.followed = "";
        /** Not a live region: it changes with every step of the charts. */
        this.following = panel.querySelector("#followed");
        this.step = STEP_S;
        /** The activity in focus over time, as samples. */
        this.spans = [];
        this.said = panel.querySelector("[role=status]");
        this.fields = [...panel.querySelectorAll("[name=from], [name=to]")];
        panel.querySelector("#show").addEventListener("submit", event => {
            event.preventDefault();
            this.typed();
        });
        panel.querySelector("#clear").addEventListener("click", () => this.clear());
        for (const choice of panel.querySelectorAll("#show select")) {
            choice.addEventListener("change", () => location.assign(this.address(choice.name, choice.value)));
        }
        if (this.field("from").value && this.field("to").value) this.typed();
    }

    // ---- the page's URL, which has the filters and the range

    /** Return this page's URL with a parameter set to another value, or without it if that is "". */
    address(name, word) {
        const words = new URLSearchParams(location.search);
        // It is unknown for which relation a session waits, so this filter excludes the others.
        if (name === "relation") FILTERS.forEach(one => words.delete(one));
        else if (FILTERS.includes(name)) words.delete("relation");
        words.delete(name);
        if (word) words.set(name, word);
        return String(words) ? `${location.pathname}?${words}` : location.pathname;
    }

    keep(name, word) {
        history.replaceState(null, "", this.address(name, word));
    }

    /** Return the parameters of a request: the times and the filters. */
    question(from, to) {
        const words = new URLSearchParams({from, to});
        for (const [name, word] of new URLSearchParams(location.search)) {
            if (FILTERS.includes(name)) words.set(name, word);
        }
        return words;
    }

    field(name) {
        return this.panel.querySelector(`#show [name=${name}]`);
    }

    get isMarked() {
        return this.from !== null;
    }

    /** Return the samples in the range; all if none is selected. */
    within(samples) {
        return this.isMarked ? samples.filter(one => one.x > this.from && one.x <= this.to) : samples;
    }

    /** Select a range, and show its times in the zone that is OFFSET seconds from UTC. */
    mark(from, to, offset = this.feed.offset) {
        if (!(to > from)) return;
        // In milliseconds, as in the form, so that exactly the selected range is requested.
        [this.from, this.to] = [from, to].map(one => Math.round(one * 1000) / 1000);
        for (const field of this.fields) {
            field.value = isoTime(field.name === "from" ? from : to, offset);
        }
        this.allow(true);
        this.following.textContent = "";
        this.said.textContent =
            `Selected: ${clock(from, offset)} to ${clock(to, offset)} ${zone(offset)}, ${Math.round(to - from)} seconds.`;
        clearTimeout(this.timer);
        this.timer = setTimeout(() => this.ask(), SETTLED_MS);
        this.changed();
    }

    clear() {
        if (!this.isMarked) return;
        this.from = this.to = null;
        for (const field of this.fields) field.value = "";
        this.allow(false);
        this.said.textContent = "";
        this.followed = "";
        clearTimeout(this.timer);
        this.asked++;
        this.keep("from", "");
        this.keep("to", "");
        this.changed();
    }

    /** Enable the buttons for reports, which need a selected range. */
    allow(may) {
        for (const button of this.panel.querySelectorAll("[action$='/report'] button")) button.disabled = !may;
    }

    typed() {
        const [from, to] = ["from", "to"].map(name => parseTime(this.field(name).value));
        // In their own zone: the server's is unknown until the first sample.
        if (to.seconds > from.seconds) this.mark(from.seconds, to.seconds, from.offset);
        else this.said.textContent = "Enter two times, the earlier one first.";
    }

    // ---- the activity of sessions in it

    ask() {
        const [from, to] = ["from", "to"].map(name => this.field(name).value);
        this.keep("from", from);
        this.keep("to", to);
        return this.fetch(this.question(from, to), this.to - this.from);
    }

    /** Show the activity of sessions in the charts' last SECONDS if nothing is selected. */
    follow(samples, seconds) {
        if (this.isMarked || !samples.length) return;
        const {offset} = this.feed;
        const step = Math.max(this.step, seconds / 30);
        const whole = moment => Math.floor(moment / step) * step;
        const end = whole(samples.at(-1).x);
        // A new viewer has fewer samples; two seconds, since their intervals vary.
        const begin = Math.max(end - seconds, whole(samples[0].x - samples[0].elapsed_s - 2));
        if (this.followed === String([begin, end]) || begin >= end) return;
        this.followed = String([begin, end]);
        const words = this.question(isoTime(begin, offset), isoTime(end, offset));
        this.following.textContent =
            `As in the charts: from ${clock(begin, offset)} to ${clock(end, offset)} ${zone(offset)}.`;
        this.fetch(words, end - begin);
    }

    async fetch(words, length) {
        const number = ++this.asked;
        try {
            const answer = await fetch(`${root}/live/details?${words}`);
            const text = await answer.text();
            if (number !== this.asked) return; // another range was requested meanwhile
            if (!answer.ok) throw new Error(text.trim());
            this.show(JSON.parse(text), length);
            if (!this.isMarked) this.said.textContent = "";
        } catch (error) {
            if (number !== this.asked) return;
            this.following.textContent = "";
            // Otherwise screen readers would read it again.
            if (this.said.textContent !== error.message) this.said.textContent = error.message;
        }
    }

    show(found, length) {
        for (const holder of this.panel.querySelectorAll("[data-rows]")) {
            const rows = found[holder.dataset.rows] ?? [];
            holder.querySelector("tbody").replaceChildren(...rows.map(row => this.row(row, length, holder.dataset)));
            holder.querySelector(".none").hidden = rows.length > 0;
        }
        this.step = found.again_s ?? STEP_S;
        this.spans = found.spans.map(span => ({...span, x: parseTime(span.at).seconds}));
        for (const choice of this.panel.querySelectorAll("#show select")) this.offer(choice, found.names);
        this.changed();
        const missing = Object.entries(found.missing ?? {}).map(([name, why]) => `No ${name}: ${why}.`);
        if (found.remembered_from && parseTime(found.begin).seconds < parseTime(found.remembered_from).seconds) {
            const {seconds, offset} = parseTime(found.remembered_from);
            missing.unshift(`There is no data from before ${clock(seconds, offset)} ${zone(offset)}.`);
        }
        if (found.source === "snapshots") missing.unshift("This is from the snapshots, per minute.");
        this.panel.querySelector(".missing").textContent = missing.join(" ");
    }

    /** Update the options of a filter, and keep its value. */
    offer(choice, names) {
        if (choice === document.activeElement) return;
        const chosen = choice.value;
        const words = [...new Set([...(chosen ? [chosen] : []), ...(names[choice.name] ?? [])])];
        choice.replaceChildren(new Option("all", ""), ...words.map(word => new Option(word, word, false, word === chosen)));
    }

    /** Return a row like those of performance.html, with the detail in a second line. */
    row(row, length, {rows, filter}) {
        const made = document.createElement("tr");
        const lines = rows === "statements" && row.detail ? [row.detail, row.name] : [row.name, row.detail];
        const name = document.createElement("td");
        const first = document.createElement("div"), second = document.createElement("small");
        const words = UNNAMED.includes(row.name) ? first : first.appendChild(document.createElement("a"));
        if (words !== first) words.href = this.address(filter, row.name);
        words.textContent = lines[0];
        second.textContent = [lines[1], row.reads].filter(Boolean).join(" · ");
        name.append(first, ...(second.textContent ? [second] : []));
        const cells = [row.wait_class, number(row.seconds / length), percent(row.share)].map(word => {
            const cell = document.createElement("td");
            cell.textContent = word;
            return cell;
        });
        name.className = cells[0].className = "word";
        made.append(name, ...cells);
        return made;
    }
}
