#!/bin/bash
# Runs in a container of the node's Debian, which then becomes the node image: puts in our programs and files (/node),
# sets up systemd, and unpacks the images of /images.tar into containerd, so that every new node has them.
set -euo pipefail
cp -a --no-preserve=ownership /node/. /

# A container needs no login, no devices and no housekeeping.
systemctl --quiet set-default multi-user.target
systemctl --quiet enable containerd.service kubelet.service
systemctl --quiet mask getty.target systemd-logind.service systemd-modules-load.service systemd-remount-fs.service \
  systemd-update-utmp.service proc-sys-fs-binfmt_misc.automount dev-hugepages.mount dev-mqueue.mount \
  sys-fs-fuse-connections.mount sys-kernel-config.mount sys-kernel-debug.mount sys-kernel-tracing.mount \
  apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer fstrim.timer

# On the volume /stage, whose outcome is copied: the overlay snapshotter does not work on the container's own root,
# which is an overlay itself.
containerd --config /etc/containerd/config.toml --root /stage/containerd --state /run/prepare \
  --address /run/prepare.sock >/tmp/containerd.log 2>&1 &
containerd=$!
export CONTAINERD_ADDRESS=/run/prepare.sock CONTAINERD_NAMESPACE=k8s.io
for _ in {1..50}; do
  ctr version >/dev/null 2>&1 && break
  sleep 0.2
done
ctr images import --all-platforms --snapshotter overlayfs /images.tar >/dev/null || {
  cat /tmp/containerd.log
  exit 1
}
# The layers are unpacked: their archives would only double the image. The files go once containerd is down, for it
# collects its garbage some time later.
ctr content ls | awk '$2 ~ /MB$|GB$|MiB$|GiB$/ {print $1}' | xargs -r ctr content rm >/dev/null
kill "$containerd"
wait "$containerd" || true
find /stage/containerd/io.containerd.content.v1.content/blobs -size +1M -delete
rm -rf /var/lib/containerd
cp -a /stage/containerd /var/lib/containerd
