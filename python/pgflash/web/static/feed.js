// SPDX-License-Identifier: PostgreSQL
// The server's messages: those of the last minutes at once, then one a second.
//
// The browser itself resumes a broken stream after its last message (Last-Event-ID).  If streams are
// closed or refused every time, the messages are polled every two seconds, and the stream is tried
// again after a while.  A stream that is silent although the server answers, or that takes as long
// to connect, is broken without a sign, as after a laptop's sleep: the page says so and reopens it.
//
// Samples are kept in order of arrival, with times of the server's clock.  A chart cannot go back in
// time.  If the clock is set back by a little, later samples are moved closer together until it has
// caught up.  If it is set back by more, the samples are dropped and the feed starts over.
//
// When the path leads to another server than before, as after a failover, the page is loaded again.

import {clock, parseTime, zone} from "./format.js";
import {root} from "./root.js";

const KEPT_MAX = 1000;
const SILENCE_S = 15;
const ASK_EVERY_MS = 2000;
const STREAM_AGAIN_MS = 30000;
const STEP_BACK_S = 10;

export class Feed {
    /** HEAR is called with "sample", "server", "status", "notice", "gap" or "clock", and the data.
    /*  */
    constructor(hear) {
        this.hear = hear;
        this.samples = [];
        this.offset = 0;
        this.live = false;
        this.last = "";
        this.heardAt = performance.now();
        this.stream = null;
        this.asking = 0;
        this.resting = false;
    }

    async begin() {
        await this.ask();
        this.open();
        setInterval(() => this.watch(), 1000);
    }

    // ---- the stream

    open() {
        this.close();
        const after = this.last ? `?after=${encodeURIComponent(this.last)}` : "";
        const stream = new EventSource(`${root}/live/events${after}`);
        for (const kind of ["sample", "server", "status", "notice", "gap"]) {
            stream.addEventListener(kind, event => {
                if (event.lastEventId) this.follow(event.lastEventId);
                this.take(kind, JSON.parse(event.data));
            });
        }
        stream.addEventListener("moved", () => location.reload());
        stream.onopen = () => { this.heardAt = performance.now(); };
        stream.onerror = () => {
            if (stream !== this.stream) return;
            this.sayNobodyAnswers();
            if (stream.readyState === EventSource.CLOSED) this.poll();
        };
        this.stream = stream;
        this.heardAt = performance.now();
    }

    /** Close the stream for a while. */
    rest() {
        this.close();
        this.resting = true;
    }

    /** Resume after rest(). */
    async wake() {
        if (!this.resting) return;
        this.resting = false;
        await this.ask();
        this.open();
    }

    close() {
        if (this.stream) this.stream.close();
        this.stream = null;
        clearTimeout(this.asking);
    }

    watch() {
        const silent = (performance.now() - this.heardAt) / 1000;
        if (!this.stream || silent <= SILENCE_S) return;
        if (this.live || this.stream.readyState === EventSource.CONNECTING) {
            // A new connection may hang, too.  One that works begins with the state.
            this.sayNobodyAnswers();
            this.open();
        }
    }

    // ---- polling

    poll(since = performance.now()) {
        this.close();
        this.asking = setTimeout(async () => {
            const answered = await this.ask();
            if (answered && performance.now() - since > STREAM_AGAIN_MS) this.open();
            else this.poll(since);
        }, ASK_EVERY_MS);
    }

    /** Ask for the messages after the last one; return whether there was an answer. */
    async ask() {
        try {
            const answer = await this.fetch(`${root}/live/samples?after=${encodeURIComponent(this.last)}`);
            if (answer.status === 401) {
                this.say("You are signed out: reload the page to sign in.");
                return false;
            }
            if (answer.status === 404 && root) {
                this.say("This server is not watched any more: the overview shows why.");
                return false;
            }
            if (!answer.ok) throw new Error(answer.statusText);
            const told = await answer.json();
            this.follow(`${told.epoch}-${told.next}`);
            if (told.gap && this.samples.length) this.take("gap", {});
            for (const one of told.messages) this.take(one.kind, one.data);
            if (told.server) this.take("server", told.server);
            this.take("status", told.status);
            return true;
        } catch {
            this.sayNobodyAnswers();
            return false;
        }
    }

    /** Fetch; give up if no answer begins.  A long one may then take its time on a slow line. */
    async fetch(address) {
        const limit = new AbortController();
        const timer = setTimeout(() => limit.abort(), SILENCE_S * 1000);
        try {
            return await fetch(address, {signal: limit.signal});
        } finally {
            clearTimeout(timer);
        }
    }

    // ---- messages

    /** Keep the newest message's EPOCH-NUMBER; another epoch is that of another server or process. */
    follow(id) {
        const epoch = id.split("-")[0];
        if (root && this.last && this.last.split("-")[0] !== epoch) location.reload();
        this.last = id;
    }

    take(kind, data) {
        this.heardAt = performance.now();
        if (kind === "status") this.live = data.state === "live";
        if (kind === "sample") {
            this.keep(data);
            if (!this.live) this.take("status", {state: "live", page: ""});
        }
        this.hear(kind, data);
    }

    say(page) {
        this.live = false;
        this.hear("status", {state: "lost", page});
    }

    /** Report that pgflash itself does not answer, and since when, by the server's clock. */
    sayNobodyAnswers() {
        const newest = this.samples.at(-1);
        const since = newest ? ` since ${clock(newest.x, this.offset)} ${zone(this.offset)}` : "";
        this.say(`pgflash serve has not answered${since}; trying again.`);
    }

    keep(sample) {
        const {seconds, offset} = parseTime(sample.at);
        this.offset = offset;
        if (this.samples.length && seconds < this.samples.at(-1).x - STEP_BACK_S) {
            this.samples = [];
            this.hear("clock", {});
        }
        const before = this.samples.at(-1);
        sample.x = before ? Math.max(seconds, before.x + 0.001) : seconds;
        this.samples.push(sample);
        if (this.samples.length > KEPT_MAX) this.samples.shift();
    }
}
