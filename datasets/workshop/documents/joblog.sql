-- joblog.sql: the job log that `skr log` keeps in ~/.skerrit/joblog.sqlite (schema 5, SQLite).

PRAGMA foreign_keys = ON;

CREATE TABLE machine (
    serial        TEXT PRIMARY KEY,             -- 3-0412, 3L-0077, 2-1530
    model         TEXT NOT NULL CHECK (model IN ('S2', 'S3', 'S3L')),
    spindle_week  INTEGER,                      -- yyww from the spindle's ring
    bearing       TEXT NOT NULL DEFAULT 'A' CHECK (bearing IN ('A', 'B', 'C')),
    bought_on     TEXT NOT NULL,
    owner         TEXT
);

CREATE TABLE job (
    id            INTEGER PRIMARY KEY,
    serial        TEXT NOT NULL REFERENCES machine,
    file          TEXT NOT NULL,
    started_at    TEXT NOT NULL,                -- UTC
    seconds       INTEGER NOT NULL CHECK (seconds >= 0),
    material      TEXT,
    outcome       TEXT NOT NULL CHECK (outcome IN ('done', 'stopped', 'alarm')),
    max_celsius   INTEGER
);

CREATE TABLE alarm (
    id            INTEGER PRIMARY KEY,
    job           INTEGER REFERENCES job ON DELETE SET NULL,
    serial        TEXT NOT NULL REFERENCES machine,
    code          INTEGER NOT NULL CHECK (code BETWEEN 1 AND 27),
    raised_at     TEXT NOT NULL,
    cleared_by    TEXT
);

CREATE TABLE service (
    serial        TEXT NOT NULL REFERENCES machine,
    done_on       TEXT NOT NULL,
    work          TEXT NOT NULL CHECK (work IN ('bearings', 'belts', 'grease', 'brushes')),
    spindle_hours REAL NOT NULL,
    PRIMARY KEY (serial, done_on, work)
);

-- Alarms are kept for warranty claims: ninety days are the least.
CREATE TRIGGER keep_alarms BEFORE DELETE ON alarm
WHEN julianday('now') - julianday(OLD.raised_at) < 90
BEGIN
    SELECT RAISE(ABORT, 'alarms of the last 90 days are kept');
END;

-- A machine that raised E11 or E13 three times within a week is to be looked at.
CREATE VIEW suspicious AS
SELECT serial, code, COUNT(*) AS times, MAX(raised_at) AS latest
FROM alarm
WHERE code IN (11, 13) AND raised_at > datetime('now', '-7 days')
GROUP BY serial, code
HAVING COUNT(*) >= 3;

-- Hours between changes of bearings: 300 for early spindles with type A, 400 for
-- every other S3 and S3L whatever the bearing, 250 for an S2.
CREATE VIEW bearing_limit AS
SELECT serial,
       CASE
           WHEN model = 'S2' THEN 250
           WHEN bearing = 'A' AND spindle_week < 2208 THEN 300
           ELSE 400
       END AS hours
FROM machine;

-- Shown by `skr log due`: machines with fewer than 20 hours left.
CREATE VIEW due AS
SELECT serial, bearing_limit.hours - (spindle.total - spindle.at_last_change) AS hours_left
FROM bearing_limit
JOIN (
    SELECT machine.serial,
           (SELECT COALESCE(SUM(seconds), 0) / 3600.0 FROM job WHERE job.serial = machine.serial) AS total,
           (SELECT COALESCE(MAX(spindle_hours), 0) FROM service
            WHERE service.serial = machine.serial AND work = 'bearings') AS at_last_change
    FROM machine
) AS spindle USING (serial)
WHERE hours_left < 20;

-- What a job costs in a shared workshop: 0.22 EUR a minute, at least 1.50 EUR,
-- and nothing when the machine itself broke off. The S3L is charged half as much again.
CREATE VIEW job_cost AS
SELECT job.id, machine.owner,
       CASE
           WHEN outcome = 'alarm' THEN 0
           ELSE ROUND(MAX(1.50, 0.22 * seconds / 60.0) * CASE model WHEN 'S3L' THEN 1.5 ELSE 1.0 END, 2)
       END AS eur
FROM job
JOIN machine USING (serial);

CREATE INDEX job_by_day ON job (serial, started_at);
CREATE INDEX alarm_by_code ON alarm (code, raised_at);
