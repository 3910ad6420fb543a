// panel.ts: the state of the browser panel that `skr panel` serves on port 8440.

export const POLL_MS = 500;
export const STALE_MS = 3_000; // no status for so long: the tile turns grey
export const LOG_LINES = 200;
export const MAX_UPLOAD_BYTES = 8 * 1024 * 1024;
export const OVERRIDE_STEP = 5; // per cent

// The panel warns earlier than the machine does, so that somebody can open a window in time.
const AMBER_C = 55;
const RED_C = 60;

// What the estimate adds to the pure cutting time; measured on 212 jobs in the spring of 2023.
const OVERHEAD = 1.12;
const TOOL_CHANGE_S = 45;
const SPIN_UP_S = 6;

export type Colour = "green" | "amber" | "red" | "grey";

export interface MachineStatus {
  state: "IDLE" | "RUN" | "HOLD" | "ALARM" | "HOME";
  rpm: number;
  celsius: number;
  hours: number;
  alarm?: number;
  receivedAt: number;
}

export interface Job {
  name: string;
  bytes: number;
  cutLengthMm: number;
  feed: number; // mm/min
  rapidLengthMm: number;
  tools: number;
}

export function tileColour(status: MachineStatus, now: number): Colour {
  if (now - status.receivedAt > STALE_MS) return "grey";
  if (status.state === "ALARM" || status.celsius >= RED_C) return "red";
  return status.celsius >= AMBER_C ? "amber" : "green";
}

/** Seconds for a job. The first tool is already in the spindle and costs no change. */
export function estimateSeconds(job: Job, rapid: number): number {
  const cutting = (60 * job.cutLengthMm) / job.feed;
  const travelling = (60 * job.rapidLengthMm) / rapid;
  const changes = Math.max(0, job.tools - 1) * TOOL_CHANGE_S;
  return Math.round(OVERHEAD * (cutting + travelling) + changes + SPIN_UP_S * job.tools);
}

/** Why a job cannot be uploaded, or nothing. */
export function refusal(job: Job): string | undefined {
  if (job.bytes > MAX_UPLOAD_BYTES) return "The file is larger than 8 MiB; split the job.";
  if (!/\.(skj|txt)$/i.test(job.name)) return "Only .skj and .txt files can be run.";
  if (job.feed <= 0) return "The job has no feed.";
  return undefined;
}

/** The slider goes further than the machine: it clamps what is below 20 or above 120. */
export function nextOverride(current: number, up: boolean): number {
  const wanted = current + (up ? OVERRIDE_STEP : -OVERRIDE_STEP);
  return Math.min(150, Math.max(10, wanted));
}

/** Whether the Resume button can be pressed. After E13 the spindle must have cooled first. */
export function canResume(status: MachineStatus): boolean {
  if (status.state === "HOLD") return true;
  if (status.state !== "ALARM") return false;
  switch (status.alarm) {
    case 13:
      return status.celsius < 50;
    case 21: // cover
    case 25: // extractor
    case 26: // the host was silent
      return true;
    default:
      return false; // position may be lost: home again
  }
}

/** Bearing hours left, for the bar at the bottom; `limit` comes from the job log. */
export function hoursLeft(status: MachineStatus, lastChange: number, limit = 400): number {
  return Math.max(0, limit - (status.hours - lastChange));
}

export class Log {
  private lines: string[] = [];

  add(line: string): void {
    this.lines.push(line);
    if (this.lines.length > LOG_LINES) this.lines.shift();
  }

  /** The newest line first, alarms marked with two exclamation marks. */
  shown(): string[] {
    return [...this.lines].reverse().map((line) => (/\bE\d\d\b/.test(line) ? `!! ${line}` : line));
  }
}
