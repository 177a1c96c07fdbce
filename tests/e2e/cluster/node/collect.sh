#!/bin/sh
# collect.sh FOLDER PROGRAM...: runs in a container of the node's Debian, and makes the file systems of two images of it:
# FOLDER/kube has the programs, with the libraries they need; FOLDER/busybox is a shell with its tools.
set -eu
root=$1/kube busybox=$1/busybox
shift
copy() { # a link is copied with what it leads to
  [ ! -e "$root$1" ] || return 0
  mkdir -p "$root$(dirname "$1")"
  if [ -L "$1" ]; then
    cp -a "$1" "$root$1"
    copy "$(cd "$(dirname "$1")" && realpath -s "$(readlink "$1")")"
  else
    cp "$1" "$root$1"
  fi
}
copy_libraries() { # of a program or library
  for library in $(ldd "$1" | grep -o ' /[^ ]*\|^\s*/[^ ]*'); do copy "$library"; done
}
mkdir -p "$root/usr/bin" "$root/usr/sbin" "$root/usr/lib" "$root/usr/lib64" "$root/run"
mkdir -m 1777 "$root/tmp"
for folder in bin sbin lib lib64; do
  if [ -L "/$folder" ]; then cp -a "/$folder" "$root/"; fi
done
for program; do
  path=$(command -v "$program")
  copy "$path"
  copy_libraries "$(realpath "$path")"
done
# iptables loads its matches and targets by name; without the libraries of even one, kube-proxy's every sync fails.
for extension in /usr/lib/*/xtables/*.so; do
  copy "$extension"
  copy_libraries "$extension"
done

mkdir -p "$busybox/bin"
cp /bin/busybox "$busybox/bin/"
/bin/busybox --install -s "$busybox/bin"
ln -sf busybox "$busybox/bin/sh" # Debian's build does not install its shell
