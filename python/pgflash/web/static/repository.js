// SPDX-License-Identifier: PostgreSQL
// The repository's data: rows from the server's snapshots for the time before the live samples.
//
// It is fetched when a longer time is chosen, and then once a minute while that is shown, by whole
// minutes of the server's clock, so that viewers send the same request.  A row is a sample of a longer
// time, and comes before the first live one.

import {isoTime, parseTime} from "./format.js";
import {root} from "./root.js";

const AGAIN_S = 60;

export class Repository {
    /** CHANGED is called when rows have arrived, SAY with what is missing. */
    constructor(feed, changed, say) {
        this.feed = feed;
        this.changed = changed;
        this.say = say;
        this.rows = [];
        this.seconds = 0;
        this.until = 0;
        this.asking = false;
    }

    /** Return the samples of the last SECONDS, the repository's before the live ones. */
    before(live, seconds) {
        const newest = live.at(-1);
        if (!newest) return [];
        if (this.seconds !== seconds || newest.x > this.until) this.ask(newest.x, seconds);
        return this.all(live).filter(one => one.x > newest.x - seconds);
    }

    /** Return all samples that there are, the repository's before the live ones. */
    all(live) {
        return live.length ? [...this.rows.filter(one => one.x <= live[0].x), ...live] : [];
    }

    async ask(now, seconds) {
        if (this.asking) return;
        this.asking = true;
        const {offset} = this.feed;
        const end = Math.ceil(now / AGAIN_S) * AGAIN_S;
        const words = new URLSearchParams({from: isoTime(end - seconds, offset), to: isoTime(end, offset)});
        try {
            const answer = await fetch(`${root}/live/history?${words}`);
            const text = await answer.text();
            if (!answer.ok) throw new Error(text.trim());
            const found = JSON.parse(text);
            this.rows = found.rows.map(row => ({...row, x: parseTime(row.at).seconds}));
            this.say(Object.values(found.missing).map(why => `The repository: ${why}.`).join(" "));
        } catch (error) {
            this.say(error.message);
        }
        this.seconds = seconds;
        this.until = end;
        this.asking = false;
        this.changed();
    }
}
