#!/bin/sh
# Install the programs that some rewards run, a TeX engine, a browser, KaTeX's fonts, and bubblewrap for the sandbox's
# namespaces, and those that start a training on several machines. Debian and Ubuntu only. What cannot be had is named
# and left out: the rewards that need it then do not start, and tests that need it are skipped with the reason.
set -u

as_root=
if [ "$(id -u)" != 0 ]; then
    as_root="sudo -n"
    $as_root true 2>/dev/null || { echo "install_programs: neither root nor sudo; nothing installed"; exit 0; }
fi
command -v apt-get >/dev/null || { echo "install_programs: no apt-get; nothing installed"; exit 0; }

wanted=
command -v bwrap >/dev/null || wanted="$wanted bubblewrap"
command -v chromium-headless-shell >/dev/null || wanted="$wanted chromium-headless-shell"
[ -f /usr/share/javascript/katex/katex.min.css ] || wanted="$wanted libjs-katex"
command -v pdflatex >/dev/null || wanted="$wanted texlive-latex-base texlive-latex-recommended"
[ -x /usr/sbin/sshd ] || wanted="$wanted openssh-server openssh-client"
command -v pdsh >/dev/null || wanted="$wanted pdsh"
[ -n "$wanted" ] || exit 0

export DEBIAN_FRONTEND=noninteractive
timeout 300 $as_root apt-get update -qq >/dev/null || echo "install_programs: apt-get update failed"
for package in $wanted; do
    timeout 600 $as_root apt-get install -y -qq --no-install-recommends "$package" >/dev/null 2>&1 ||
        echo "install_programs: $package cannot be installed; tests that need it are skipped"
done
