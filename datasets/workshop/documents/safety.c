/*
 * safety.c - the supervisor of Plover 4.4. It runs every 10 ms from the timer
 * interrupt, looks at spindle, cover and supply, and raises at most one alarm.
 */
#include "limits.h"
#include "hal.h"

#define TICK_MS            10
#define TEMP_EVERY_TICKS   25     /* the thermistor is read four times a second */
#define TRIP_SAMPLES        3
#define COVER_DEBOUNCE_MS  40
#define STALL_PERCENT      60
#define STALL_MS          400
#define OVERSPEED_PERCENT 108
#define LOW_MS            100
#define DUST_GRACE_MS    8000

static uint16_t hot_samples, stall_ms, low_ms, cover_ms, dust_ms, ticks;
static uint8_t  cooling;

/* A broken thermistor reads far below freezing, a shorted one above 150 C. */
static int plausible(int16_t celsius)
{
    return celsius > -20 && celsius < 150;
}

/* Three hot samples in a row stop the spindle; one alone is often noise. */
static enum alarm check_temperature(int16_t celsius)
{
    if (!plausible(celsius))
        return ALARM_SENSOR;

    if (celsius >= SPINDLE_TRIP_C) {
        if (++hot_samples >= TRIP_SAMPLES) {
            cooling = 1;
            return ALARM_SPINDLE_HOT;
        }
    } else {
        hot_samples = 0;
    }

    if (celsius >= SPINDLE_WARN_C)
        hal_feed_scale(75);           /* per cent of the programmed feed */
    else
        hal_feed_scale(100);

    if (cooling && celsius < SPINDLE_RESUME_C)
        cooling = 0;
    return ALARM_NONE;
}

/* GO after E13 is refused while this returns 1. */
int safety_cooling(void)
{
    return cooling;
}

/*
 * The cover counts as open only after it has been open for COVER_DEBOUNCE_MS,
 * since the reed switch chatters when the machine vibrates. With the service
 * key turned the spindle may run slowly under an open cover.
 */
static enum alarm check_cover(uint16_t rpm)
{
    if (!hal_cover_open()) {
        cover_ms = 0;
        return ALARM_NONE;
    }
    cover_ms += TICK_MS;
    if (cover_ms < COVER_DEBOUNCE_MS || rpm == 0)
        return ALARM_NONE;
    if (hal_service_key()) {
        hal_clamp_rpm(SPINDLE_SERVICE_RPM);
        return ALARM_NONE;
    }
    return ALARM_COVER;
}

static enum alarm check_speed(uint16_t wanted, uint16_t measured)
{
    uint32_t percent;

    if (wanted == 0 || hal_ramping()) {
        stall_ms = 0;
        return ALARM_NONE;
    }
    percent = 100u * measured / wanted;
    if (percent > OVERSPEED_PERCENT)
        return ALARM_OVERSPEED;
    if (percent < STALL_PERCENT) {
        stall_ms += TICK_MS;
        if (stall_ms >= STALL_MS)
            return ALARM_STALL;
    } else {
        stall_ms = 0;
    }
    return ALARM_NONE;
}

/* A short dip happens whenever all axes start together, hence LOW_MS. */
static enum alarm check_supply(uint16_t millivolts)
{
    if (millivolts > SUPPLY_HIGH_MV)
        return ALARM_SUPPLY_HIGH;     /* at once: the drivers are at risk */
    low_ms = millivolts < SUPPLY_LOW_MV ? low_ms + TICK_MS : 0;
    return low_ms >= LOW_MS ? ALARM_SUPPLY_LOW : ALARM_NONE;
}

/* Only machines with setting dust.fitted = 1 watch the flow of the extractor. */
static enum alarm check_dust(void)
{
    if (!setting_u8("dust.fitted") || hal_dust_flow()) {
        dust_ms = 0;
        return ALARM_NONE;
    }
    dust_ms += TICK_MS;
    return dust_ms >= DUST_GRACE_MS ? ALARM_DUST_FLOW : ALARM_NONE;
}

/*
 * Answers SPIN. Returns the speed to run at, or 0 and an alarm. A request above
 * the limit of an early bearing is refused rather than cut, so that nobody
 * believes that a job ran at a speed at which it did not run.
 */
uint16_t safety_spin(uint16_t rpm, enum alarm *why)
{
    uint16_t most = SPINDLE_MAX_RPM;

    *why = ALARM_NONE;
    if (setting_u16("spindle.week") < EARLY_WEEK && setting_char("spindle.bearing") != 'C')
        most = SPINDLE_EARLY_RPM;
    if (rpm > most) {
        *why = most == SPINDLE_EARLY_RPM ? ALARM_EARLY_BEARING : ALARM_OVERSPEED;
        return 0;
    }
    return rpm < SPINDLE_MIN_RPM ? SPINDLE_MIN_RPM : rpm;
}

/* The order decides which alarm is shown when several conditions hold. */
enum alarm safety_tick(void)
{
    enum alarm found;

    if (hal_estop())
        return ALARM_ESTOP;
    if ((found = check_supply(hal_supply_mv())))
        return found;
    if ((found = check_cover(hal_rpm())))
        return found;
    if ((found = check_speed(hal_rpm_wanted(), hal_rpm())))
        return found;
    if (++ticks >= TEMP_EVERY_TICKS) {
        ticks = 0;
        if ((found = check_temperature(hal_spindle_celsius())))
            return found;
    }
    return check_dust();
}
