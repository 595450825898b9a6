// SPDX-License-Identifier: PostgreSQL
// Numbers and times as the page shows them; figures.py says the same of numbers in Python.

const NOTHING = "–";

/** Return a value with as many digits as a reader keeps. */
export function number(value) {
    if (value === null || value === undefined || !Number.isFinite(value)) return NOTHING;
    const digits = value >= 99.5 ? 0 : value >= 9.95 ? 1 : value >= 0.0995 || value === 0 ? 2 : 3;
    return value.toLocaleString("en-US", {minimumFractionDigits: digits, maximumFractionDigits: digits});
}

/** Return a mark of an axis, as short as it can be. */
export function mark(value) {
    if (value === null) return "";
    if (value >= 1e6) return `${value / 1e6}M`;
    return value >= 1e4 ? `${value / 1e3}k` : String(Number(value.toPrecision(6)));
}

/** Return a share in percent. */
export function percent(share) {
    return `${(100 * share).toFixed(share >= 0.0995 ? 0 : 1)} %`;
}

/** The server's clock: seconds since 1970 and how far its zone is from UTC, in seconds. */
export function parseTime(text) {
    const zone = /([+-])(\d\d):?(\d\d)$/.exec(text);
    const offset = zone ? (zone[1] === "-" ? -1 : 1) * (60 * zone[2] + 1 * zone[3]) * 60 : 0;
    return {seconds: Date.parse(text) / 1000, offset};
}

/** Return the ISO 8601 text of a moment in the server's zone. */
export function isoTime(seconds, offset) {
    const text = new Date(Math.round((seconds + offset) * 1000)).toISOString().slice(0, -1);
    const minutes = Math.abs(offset) / 60;
    const two = part => String(Math.floor(part)).padStart(2, "0");
    return `${text}${offset < 0 ? "-" : "+"}${two(minutes / 60)}:${two(minutes % 60)}`;
}

/** Return the time of day of a moment in the server's zone. */
export function clock(seconds, offset) {
    return isoTime(seconds, offset).slice(11, 19);
}
