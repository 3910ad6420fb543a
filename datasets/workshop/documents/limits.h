/*
 * limits.h - what Plover 4.4 allows on controller board C2 (Skerrit S3 and S3L).
 *
 * Board C1 (Skerrit S2) keeps the limits of Plover 3.8, which live in another tree.
 * Lengths are millimetres, feeds millimetres a minute, times milliseconds.
 */
#ifndef PLOVER_LIMITS_H
#define PLOVER_LIMITS_H

#include <stdint.h>

/* ---- link to the host ---------------------------------------------------- */
#define LINE_MAX_BYTES        128   /* with the line feed; 96 up to Plover 3.8 */
#define WINDOW_LINES           32   /* lines in flight before E20 */
#define HOST_SILENT_MS       5000   /* was 10000 before 4.2; counted in jobs only */
#define RESEND_MAX              3   /* bad checksums of one line before HOLD */

/* ---- travel and feed ----------------------------------------------------- */
#define TRAVEL_X_S3          300.0f
#define TRAVEL_X_S3L         600.0f
#define TRAVEL_Y             200.0f
#define TRAVEL_Z              60.0f
#define SOFT_MARGIN            0.5f /* kept free at each end of an axis */

#define RAPID_X_S3           2400
#define RAPID_X_S3L          1500   /* the long screw whips above this */
#define RAPID_Y              2400
#define RAPID_Z               600
#define PLUNGE_MAX            300   /* a Z move downwards with the spindle on */

#define ACCEL_S3              250   /* mm/s2 */
#define ACCEL_S3L             150   /* mm/s2, X only; Y uses ACCEL_S3 */

/* Feed override from the panel or the host, in per cent. */
#define OVERRIDE_MIN           20
#define OVERRIDE_MAX          120

/* ---- homing and probing -------------------------------------------------- */
#define HOMING_FEED           700   /* 900 up to 4.2: switches bounced */
#define HOMING_BACKOFF        3.0f
#define HOMING_TIMEOUT_S3   30000
#define HOMING_TIMEOUT_S3L  45000
#define PROBE_TRAVEL_MAX     25.0f
#define PROBE_FEED_MAX        120
#define PROBE_RETRACT         2.0f

/* ---- spindle ------------------------------------------------------------- */
#define SPINDLE_MIN_RPM      4000
#define SPINDLE_MAX_RPM     18000
#define SPINDLE_EARLY_RPM   16000   /* bearing type A, week code below 2208 */
#define SPINDLE_SERVICE_RPM  6000   /* cover open, service key KS-2 turned */
#define EARLY_WEEK           2208
#define RAMP_RPM_PER_S       3000

#define SPINDLE_WARN_C         60
#define SPINDLE_TRIP_C         70
#define SPINDLE_RESUME_C       50

/* ---- supply, in millivolts ----------------------------------------------- */
#define SUPPLY_LOW_MV       21600
#define SUPPLY_HIGH_MV      27500

/* ---- settings ------------------------------------------------------------ */
#define SETTINGS_COUNT         46   /* 40 in Plover 4.0 and 4.1 */
#define SETTINGS_COPIES         2   /* the second is read when the first is bad */

/* Alarm numbers are part of the protocol: never reuse one. */
enum alarm {
    ALARM_NONE           = 0,
    ALARM_ESTOP          = 1,
    ALARM_LINE_TOO_LONG  = 2,
    ALARM_BAD_CHECKSUM   = 3,
    ALARM_UNKNOWN_WORD   = 4,
    ALARM_SOFT_LIMIT     = 5,
    ALARM_HARD_LIMIT     = 6,
    ALARM_HOMING_TIMEOUT = 7,
    ALARM_NOT_HOMED      = 8,
    ALARM_PROBE_MISSED   = 9,
    ALARM_PROBE_CLOSED   = 10,
    ALARM_STALL          = 11,
    ALARM_OVERSPEED      = 12,
    ALARM_SPINDLE_HOT    = 13,
    ALARM_SENSOR         = 14,
    ALARM_SUPPLY_LOW     = 15,
    ALARM_SUPPLY_HIGH    = 16,
    ALARM_DRIVER_X       = 17,
    ALARM_DRIVER_Y       = 18,
    ALARM_DRIVER_Z       = 19,
    ALARM_OVERFLOW       = 20,
    ALARM_COVER          = 21,
    ALARM_WATCHDOG       = 22,
    ALARM_SETTINGS       = 23,
    ALARM_TOOL_LENGTH    = 24,
    ALARM_DUST_FLOW      = 25,
    ALARM_HOST_SILENT    = 26,
    ALARM_EARLY_BEARING  = 27
};

#endif
