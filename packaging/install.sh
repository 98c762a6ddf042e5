#!/bin/sh
# Puts the program, its unit, an example of its settings and its documents where a package puts them.
#
#   cargo build --release --bin logberg && sudo packaging/install.sh
#   DESTDIR=tree BINARY=target/release/logberg packaging/install.sh
#
# DESTDIR  goes in front of every path; for packages, and to try
# PREFIX   /usr or /usr/local
# BINARY   the program that was built
#
# What stands in /etc/logberg already is an operator's, and stays as it is.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
root=${here%/*}
destdir=${DESTDIR:-}
prefix=${PREFIX:-/usr}
binary=${BINARY:-$root/target/release/logberg}

if [ ! -x "$binary" ]; then
    echo "install.sh: there is no program at $binary: build it with cargo build --release --bin logberg, or name it with BINARY=" >&2
    exit 1
fi
case $prefix in
    /*) ;;
    *) echo "install.sh: PREFIX is a path from the root, not $prefix" >&2; exit 2 ;;
esac

put() { # mode, from, to
    install -d -m 0755 "$destdir${3%/*}"
    install -m "$1" "$2" "$destdir$3"
}

put 0755 "$binary" "$prefix/bin/logberg"
unit=$(mktemp)
trap 'rm -f "$unit"' EXIT
sed "s|^ExecStart=/usr/bin/|ExecStart=$prefix/bin/|" "$here/logberg@.service" > "$unit"
put 0644 "$unit" "$prefix/lib/systemd/system/logberg@.service"
put 0644 "$here/logberg.sysusers" "$prefix/lib/sysusers.d/logberg.conf"
put 0644 "$here/node.toml" "$prefix/share/doc/logberg/node.toml"
put 0644 "$here/alerts.yaml" "$prefix/share/doc/logberg/alerts.yaml"
# The documents keep their places beside one another, with all that they link to.
for document in "$root"/*.md "$root/LICENSE" "$root"/docs/*.md "$root"/docs/decisions/*.md "$root"/docs/figures/*.svg "$root"/docs/runs/*.json.gz "$root"/clients/python/* \
    "$root/crates/embed/examples/bank.rs" "$here/alerts.yaml"; do
    [ -d "$document" ] || put 0644 "$document" "$prefix/share/doc/logberg/${document#"$root"/}"
done
# What the program says of itself, where it runs on this machine.
if "$binary" manual --to "$destdir$prefix/share/man/man1" > /dev/null; then
    completions() { # shell, to
        install -d -m 0755 "$destdir${2%/*}"
        "$binary" completions "$1" > "$destdir$2"
    }
    completions bash "$prefix/share/bash-completion/completions/logberg"
    completions zsh "$prefix/share/zsh/site-functions/_logberg"
    completions fish "$prefix/share/fish/vendor_completions.d/logberg.fish"
else
    echo "install.sh: $binary does not run here: make its manual and completions where it does (docs/packaging.md)" >&2
fi
install -d -m 0755 "$destdir/etc/logberg"
[ -e "$destdir/etc/logberg/example.toml" ] || put 0644 "$here/node.toml" /etc/logberg/example.toml

if [ -z "$destdir" ]; then
    cat <<END
installed. Then:
  systemd-sysusers && systemctl daemon-reload
  $prefix/bin/logberg doctor /var/lib
  cp /etc/logberg/example.toml /etc/logberg/a.toml     # and change it
  systemctl enable --now logberg@a
END
fi
