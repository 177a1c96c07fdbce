# shellcheck shell=bash
# Sourced by the scripts beside it and in ../images: the cache, messages, digests, Debian packages, Go.

CACHE=${MINIKAFKA_E2E_CACHE:-$HOME/.cache/minikafka-e2e}
mkdir -p "$CACHE"

# What is asked for goes to standard output, so everything said goes to standard error.
say() { printf '%s\n' "$*" >&2; }

die() {
  say "${0##*/}: $*"
  exit 1
}

# Names of what is cached end with a digest of what it was made from.
short_digest() { sha256sum | cut -c1-12; }

# The names and contents of files, given as paths relative to here (folders: all that is in them).
list_contents() { find "$@" -type f -not -name '*.pyc' -print0 | LC_ALL=C sort -z | xargs -0 sha256sum; }

# One at a time for each NAME on this machine; the second then finds in the cache what the first made.
lock() { # NAME
  exec {LOCK}>"$CACHE/$1.lock"
  flock --nonblock "$LOCK" && return
  say "waiting for another run of $1"
  flock "$LOCK"
}

# Debian packages that have to be there; installed where that may be done, otherwise named.
need_packages() { # NAME...
  local missing=() name
  for name; do
    dpkg-query --show --showformat '${db:Status-Status}\n' "$name" 2>/dev/null | grep -qx installed || missing+=("$name")
  done
  ((${#missing[@]})) || return 0
  if [[ $(id -u) != 0 ]] || ! command -v apt-get >/dev/null; then
    die "these Debian packages are missing, and installing them takes root on Debian: ${missing[*]}"
  fi
  (
    lock packages # apt does not wait for another one
    say "installing ${missing[*]}"
    apt-get update -qq >&2 || true # an old list may still do
    DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends -qq "${missing[@]}" >/dev/null
  ) || die "could not install ${missing[*]} (see above)"
}

# Installs a root of Debian bookworm with some packages into a tar archive of the cache, and prints its path.
debian_root() { # NAME VARIANT PACKAGE,... [MMDEBSTRAP OPTION...]
  local name=$1 variant=$2 include=$3 archive sources=()
  shift 3
  archive=$CACHE/$name-$(printf '%s\n' bookworm "$variant" "$include" "$@" | short_digest).tar
  if [[ ! -e $archive ]]; then
    need_packages mmdebstrap
    # This machine's own sources where they fit, so that its mirror serves here too.
    if grep -qsx VERSION_CODENAME=bookworm /etc/os-release; then
      if grep -qs '^deb ' /etc/apt/sources.list; then
        sources=(/etc/apt/sources.list)
      elif [[ -e /etc/apt/sources.list.d/debian.sources ]]; then
        sources=(/etc/apt/sources.list.d/debian.sources)
      fi
    fi
    say "installing Debian for $name"
    # The package that only says that /usr is merged stands in for the one that merges it, which needs all of Perl.
    mmdebstrap --quiet --format=tar --variant="$variant" --include="usr-is-merged,$include" \
      --hook-dir=/usr/share/mmdebstrap/hooks/merged-usr \
      --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
      --aptopt='Acquire::Languages "none"' "$@" bookworm "$archive.new" "${sources[@]}" >"$CACHE/debian-$name.log" 2>&1 || {
      cat "$CACHE/debian-$name.log" >&2
      die "could not install Debian for $name (see above)"
    }
    mv "$archive.new" "$archive"
  fi
  echo "$archive"
}

# The Go that reads cluster/go/go.mod. From 1.21 on Go fetches the version that a go.mod asks for by itself; an older one
# (Debian 12 has 1.19) can at least download a newer Go as the module that it is published as.
find_go() {
  local bootstrap=go1.25.5 architecture root
  if ! command -v go >/dev/null; then
    need_packages golang-go
  fi
  if [[ $(go env GOVERSION) =~ ^go1\.([0-9]+) ]] && ((BASH_REMATCH[1] >= 21)); then
    command -v go
    return
  fi
  architecture=$(go env GOOS)-$(go env GOARCH)
  root=$(cd / && GOFLAGS=-mod=mod go mod download -json "golang.org/toolchain@v0.0.1-$bootstrap.$architecture" |
    sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
  [[ -n $root ]] || die "go is $(go env GOVERSION), which is too old, and $bootstrap could not be downloaded"
  chmod -R u+w "$root" # modules are unpacked read-only, and without execute permission
  chmod +x "$root"/bin/* "$root"/pkg/tool/"${architecture/-/_}"/*
  echo "$root/bin/go"
}
