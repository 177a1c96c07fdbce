# shellcheck shell=bash
# Sourced by what calls uv. uv reads none of pip's settings, of which these say where packages are to be had.

uv_reads_settings_of() { # PYTHON: with pip
  local key value
  while IFS='=' read -r key value; do
    value=${value#\'} value=${value%\'}
    case ${key##*.} in
      index-url) export UV_DEFAULT_INDEX=${UV_DEFAULT_INDEX:-$value} ;;
      extra-index-url) export UV_INDEX=${UV_INDEX:-$value} ;;
      find-links) export UV_FIND_LINKS=${UV_FIND_LINKS:-$value} ;;
      cert) export SSL_CERT_FILE=${SSL_CERT_FILE:-$value} ;;
    esac
  done < <("$1" -m pip config list)
}
