#!/bin/sh
# Pin what is fetched by name: images by digest, actions by commit, and packages by the hashes of their files.
#
#     sh pin.sh          # needs docker with buildx, git, uv and the network; run it again to update
#     sh pin.sh --undo   # the files as they were written, for `ragsmith deploy --force`
set -eu
cd "$(dirname "$0")"
images="Dockerfile compose.yaml"
workflow=.github/workflows/gate.yml

# edit SCRIPT FILE: edit a file by a script of sed.
edit() {
    sed -E -i.bak "$1" "$2"
    rm "$2.bak"
}

for file in $images; do edit 's/@sha256:[0-9a-f]+//' "$file"; done
for file in requirements*.txt; do edit 's/ --hash=[^ ]+//g' "$file"; done
if [ -f $workflow ]; then edit 's/@[0-9a-f]{40} # (v[^ ]+)/@\1/' $workflow; fi
if [ "${1:-}" = --undo ]; then exit 0; fi

# A pipe does not end the script if its first command fails, so each command is run alone.
for image in $(sed -nE 's/^ *(FROM|image:) +([^ ]+)$/\2/p' $images); do
    digest=$(docker buildx imagetools inspect "$image" --format '{{.Manifest.Digest}}')
    for file in $images; do edit "s|(FROM\|image:) +$image\$|\1 $image@$digest|" "$file"; done
done

if [ -f $workflow ]; then
    for action in $(sed -nE 's/.*uses: ([^ ]+@v[^ ]+).*/\1/p' $workflow); do
        name=${action%@*} tag=${action#*@}
        found=$(git ls-remote "https://github.com/$name" "refs/tags/$tag" "refs/tags/$tag^{}")
        commit=$(echo "$found" | tail -n 1 | cut -f 1) # an annotated tag is followed by its commit
        if [ -z "$commit" ]; then echo "pin.sh: there is no tag $tag of $name" >&2; exit 1; fi
        edit "s|$action( \|\$)|$name@$commit # $tag\1|" $workflow
    done
fi

for file in requirements*.txt; do
    grep '==' "$file" > .names || continue
    uv pip compile .names --generate-hashes --no-deps --no-annotate --no-header --quiet --output-file .hashes > .log
    awk 'FNR == NR { if (/--hash=/) hashes[name] = hashes[name] " " $1; else name = $1; next }
         { print $0 hashes[$1] }' .hashes "$file" > .pinned
    cat .pinned > "$file"
done
rm -f .names .hashes .pinned .log
for wheel in wheels/*.whl; do
    digest=$(openssl dgst -sha256 -r "$wheel")
    edit "s|^(./$wheel)\$|\1 --hash=sha256:${digest%% *}|" requirements.txt
done
if grep -vE '^#|--hash=' requirements*.txt; then
    echo "pin.sh: these have no version; install them where the kit is written, and deploy again" >&2
fi
