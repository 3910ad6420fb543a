-- Schema of the database metering, Quernstone 6. Version 19 of 12 February 2026.
-- The comments are part of the documents of the service. Where a limit here differs from a constant in metering.py,
-- the database refuses what the program would accept, and the database is right: it has been told to by the auditors.

CREATE TABLE account (
    name            TEXT PRIMARY KEY,
    contract        TEXT NOT NULL CHECK (contract IN ('house', 'group', 'customer', 'harbour', 'school')),
    -- school: added in version 17. Pays what a group pays and has the rebate of a customer. metering.py 2026-01
    -- does not know the word and treats such an account as one without any rebate. Mended in the program of April.
    opened_month    INTEGER NOT NULL,
    closed_month    INTEGER,                        -- the month in which the last bill is written
    carried         DECIMAL(18, 4) NOT NULL DEFAULT 0,
    months_carried  INTEGER NOT NULL DEFAULT 0 CHECK (months_carried <= 3),
    -- The auditors do not want small sums to be carried across the end of a quarter. Was 6 until version 18.
    -- A program that tries to carry for a fourth month is refused, and settle_account must then send the bill.
    keeper          TEXT NOT NULL
);

CREATE TABLE meter (
    id              TEXT PRIMARY KEY,               -- the first letter is the type: K, L, S (software) or W (water)
    account         TEXT NOT NULL REFERENCES account (name),
    kind            TEXT NOT NULL CHECK (kind IN
                    ('core_hour', 'gib_hour', 'message_million', 'log_gib_month', 'cooling_barrel')),
    hall            TEXT NOT NULL CHECK (hall IN ('gannet', 'northlight')),
    body_serial     INTEGER NOT NULL,
    wraps_at        INTEGER,
    -- K: 1000000. L: 500000 since the batch of 2025, NULL for those before. S and W: NULL.
    -- metering.py asks for the letter and knows only K. Readings of an L that wraps are set aside there, which costs
    -- an hour of work each month and harms nobody.
    exchanged_at    INTEGER,
    last_of_old     DECIMAL(18, 4)
    -- what the porter read from the old body when it came out. The function amount_between does not use it yet.
);

CREATE TABLE usage (
    meter           TEXT NOT NULL REFERENCES meter (id),
    at              INTEGER NOT NULL,               -- seconds since 2000, time of the log
    value           DECIMAL(18, 4) NOT NULL CHECK (value >= 0),
    serial          INTEGER NOT NULL,
    received        INTEGER NOT NULL,
    message_no      INTEGER NOT NULL,
    estimated       INTEGER NOT NULL DEFAULT 0 CHECK (estimated IN (0, 1)),
    PRIMARY KEY (meter, at),
    UNIQUE (message_no)                             -- a message that is delivered twice is entered once
) DIVIDE BY RANGE (at);
-- One partition a month, kept for 62 months. The oldest is removed on the tenth of the month by svc-metering, after
-- it has been copied to the reading room.

CREATE TABLE bill_line (
    account         TEXT NOT NULL REFERENCES account (name),
    month           INTEGER NOT NULL,
    kind            TEXT NOT NULL,
    amount          DECIMAL(18, 4) NOT NULL,
    price           DECIMAL(18, 4) NOT NULL,
    aside           INTEGER NOT NULL DEFAULT 0,
    frozen_by       TEXT,
    frozen_with     TEXT,
    PRIMARY KEY (account, month, kind),
    CHECK (frozen_by IS NULL OR frozen_by <> frozen_with)
);

CREATE TABLE freeze_log (
    month           INTEGER NOT NULL,
    first           TEXT NOT NULL,
    second          TEXT NOT NULL,
    at              MOMENT NOT NULL
);

-- Nobody changes a frozen line, svc-metering included. What was wrong is put right by a line in a later month.
CREATE TRIGGER bill_line_frozen BEFORE UPDATE ON bill_line
    WHEN OLD.frozen_by IS NOT NULL
    REFUSE 'Q-640: line is frozen';

-- A month is frozen between the 12th and the 20th of the following month. Earlier, readings may still come in;
-- later, the bills have gone out.
CREATE TRIGGER freeze_in_time BEFORE INSERT ON freeze_log
    WHEN DAY(NEW.at) < 12 OR DAY(NEW.at) > 20
    REFUSE 'Q-641: outside the days of freezing';

-- Estimates: at most two in a row for one meter (version 19). A third is refused, and the program enters nothing.
CREATE TRIGGER no_third_estimate BEFORE INSERT ON usage
    WHEN NEW.estimated = 1 AND
         (SELECT SUM(estimated) FROM (SELECT estimated FROM usage WHERE meter = NEW.meter ORDER BY at DESC LIMIT 2)) = 2
    REFUSE 'Q-642: third estimate';

-- What customers see. Lines with readings set aside are shown without an amount.
CREATE VIEW bill_shown AS
    SELECT account, month, kind,
           CASE WHEN aside > 0 THEN NULL ELSE amount END AS amount,
           CASE WHEN aside > 0 THEN NULL ELSE price END AS price,
           frozen_by IS NOT NULL AS final
    FROM bill_line;

-- Accounts whose bill would be larger than four times that of the month before. The keeper is asked before sending;
-- if there is no answer in two working days the bill is sent all the same.
CREATE VIEW bill_sudden AS
    SELECT now.account, now.month, SUM(now.price) AS sum_now, SUM(before.price) AS sum_before
    FROM bill_line AS now
    JOIN bill_line AS before ON before.account = now.account AND before.month = now.month - 1 AND before.kind = now.kind
    GROUP BY now.account, now.month
    HAVING SUM(now.price) > 4 * SUM(before.price) AND SUM(now.price) > 50;

-- Rights. A right on bill_line is a right on closed data.
GRANT SELECT ON bill_shown TO customer_portal;
GRANT SELECT, INSERT, UPDATE ON bill_line TO svc_metering;
GRANT SELECT ON usage TO settle_a, settle_b;
GRANT INSERT ON freeze_log TO settle_a, settle_b;
-- DELETE is given to nobody. To take a line out, its amount is set to 0 before the month is frozen.

INSERT INTO account (name, contract, opened_month, keeper) VALUES
    ('house-lantern',   'house',    288, 'Ilse Varrow'),
    ('group-eddowes',   'group',    291, 'Tamar Eddowes'),
    ('ferry-lisk',      'customer', 283, 'Tobin Achterberg'),
    ('harbour-office',  'harbour',  276, 'Kofi Lantry'),
    ('school-hessock',  'school',   312, 'Dara Penhallow');
