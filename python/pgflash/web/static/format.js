// SPDX-License-Identifier: PostgreSQL
// The format of numbers and times; model/words.py has the same in Python.

const NOTHING = "–";

/** Return a number with three significant digits, or all digits before the point. */
export function number(value) {
    if (value === null || value === undefined || !Number.isFinite(value)) return NOTHING;
    const size = Math.abs(value);
    return fixed(value, size >= 99.95 || value === 0 ? 0 : size >= 9.995 ? 1 : size >= 0.9995 ? 2 : 3);
}

/** Return a number with this many decimals; only zero is printed as zero. */
function fixed(value, digits) {
    const text = value.toLocaleString("en-US", {
        minimumFractionDigits: digits, maximumFractionDigits: digits, roundingMode: "halfEven",
    });
    if (value === 0 || /[1-9]/.test(text)) return text;
    return `${value > 0 ? "<" : ">-"}${(10 ** -digits).toFixed(digits)}`;
}

/** Return the label of an axis, as short as possible. */
export function mark(value) {
    if (value === null) return "";
    if (value >= 1e6) return `${value / 1e6}M`;
    return value >= 1e4 ? `${value / 1e3}k` : String(Number(value.toPrecision(6)));
}

/** Return a share in percent. */
export function percent(share) {
    return `${fixed(100 * share, share >= 0.0995 || share === 0 ? 0 : 1)} %`;
}

// A zone after a time of day: +01:00, +0100, and +01 as psql prints it.  A day ends alike: -22.
const ZONE = /(:\d\d(?:\.\d+)?) *([+-])(\d\d)(?::?(\d\d))?$/;

/** The server's clock: seconds since 1970 and how far its zone is from UTC, in seconds. */
export function parseTime(text) {
    const words = text.trim();
    const found = ZONE.exec(words);
    // Without a zone it is in UTC, as for the server, and not in the browser's.
    const inUTC = words.endsWith("Z") ? words : `${words}Z`;
    if (!found) return {seconds: Date.parse(inUTC) / 1000, offset: 0};
    const [, end, sign, hours, minutes = "00"] = found;
    const whole = `${words.slice(0, found.index)}${end}${sign}${hours}:${minutes}`;
    const offset = (sign === "-" ? -1 : 1) * (60 * hours + 1 * minutes) * 60;
    return {seconds: Date.parse(whole) / 1000, offset};
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

/** Return the name of the server's zone: UTC, UTC+05:45. */
export function zone(offset) {
    return offset === 0 ? "UTC" : `UTC${isoTime(0, offset).slice(-6)}`;
}
