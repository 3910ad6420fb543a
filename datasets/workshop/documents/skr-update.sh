#!/bin/sh
# skr-update: save the settings of a Skerrit, then write new firmware to it.
#
# usage: skr-update [-d DIRECTORY] [-k COPIES] [-n] IMAGE
#   -d   where copies of the settings go   (default /var/lib/skerrit/settings)
#   -k   how many copies are kept          (default 14)
#   -n   check everything, write nothing
#
# exit status: 0 done, 10 too little space, 11 wrong checksum, 12 machine busy,
#              13 settings incomplete, 14 image is for another board

set -eu

dir=/var/lib/skerrit/settings
keep=14
dry=no

while getopts d:k:n option; do
    case $option in
        d) dir=$OPTARG ;;
        k) keep=$OPTARG ;;
        n) dry=yes ;;
        *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
image=${1:?give the firmware image}

say() { printf 'skr-update: %s\n' "$1" >&2; }
fail() { say "$2"; exit "$1"; }

# 32 MiB: the image, its unpacked form, and the old firmware for going back.
free_kib=$(df -Pk "$dir" | awk 'NR == 2 { print $4 }')
[ "$free_kib" -ge 32768 ] || fail 10 "less than 32 MiB free in $dir"

# The image travels with its checksum; a missing .sha256 file counts as wrong.
expected=$(cut -d ' ' -f 1 "$image.sha256" 2>/dev/null || true)
actual=$(sha256sum "$image" | cut -d ' ' -f 1)
[ "$expected" = "$actual" ] || fail 11 "checksum of $image does not match"

# Bytes 8 to 9 of an image name the board: C1 or C2.
wanted=$(dd if="$image" bs=1 skip=8 count=2 2>/dev/null)
board=$(skr get board)
[ "$wanted" = "$board" ] || fail 14 "image is for board $wanted, this is $board"

[ "$(skr status --field state)" = IDLE ] || fail 12 "machine is not idle"
celsius=$(skr status --field celsius)
[ "$celsius" -lt 45 ] || fail 12 "spindle is at $celsius C; wait until it is below 45"

copy=$dir/$(skr get serial)-$(date -u +%Y%m%dT%H%M%SZ).set
skr settings dump > "$copy.part"

# Plover 4.0 and 4.1 have 40 settings, later ones 46.
lines=$(grep -c '=' "$copy.part" || true)
[ "$lines" -ge 40 ] || fail 13 "only $lines settings were read; nothing was written"
mv "$copy.part" "$copy"
say "settings saved as $copy"

# Oldest copies go first; the one just made is never among them.
ls -1t "$dir"/*.set | tail -n "+$((keep + 1))" | while read -r old; do
    rm -- "$old"
done

if [ "$dry" = yes ]; then
    say "dry run: firmware not written"
    exit 0
fi

before=$(skr get version)
skr firmware write "$image"
sleep 20   # the board restarts twice

# Going from 4.0 or 4.1 the settings are reset by the board: put them back.
case $before in
    4.0* | 4.1*)
        skr settings load --skip spindle.week "$copy"
        say "settings restored; enter spindle.week by hand"
        ;;
esac
say "now at $(skr get version)"
