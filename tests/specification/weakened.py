"""Mistakes of the specification itself: a guard less, or a weaker one. Steps by chance must find what is lost by each."""

from __future__ import annotations

from typing import NamedTuple

from minikafka_simulator.bugs.bug import Drifted

Replacement = tuple[str, str]


class Weakened(NamedTuple):
    """Texts of `spec/partition.qnt`, each of which stands there once, and what takes their place."""

    name: str
    mistake: str
    replacements: tuple[Replacement, ...]

    def applied(self, text: str) -> str:
        """The specification with the mistake in it. Raises Drifted."""
        for old, new in self.replacements:
            if text.count(old) != 1:
                raise Drifted(f"{self.name}: {old!r} stands {text.count(old)} times in the specification, not once")
            text = text.replace(old, new)
        return text


ALL = (
    Weakened("hw-of-the-leader-alone", "R4: the high watermark waits for no follower",
             (("r.maximal.exists(m => m != b and r.remote.get(m) < hw)", "false"),)),
    Weakened("committed-isr", "KIP-497: a change in flight does not count for the high watermark",
             (("r.maximal.exists(m => m != b and", "r.isr.exists(m => m != b and"),)),
    Weakened("hw-under-min-isr", "KIP-966: the high watermark moves below min.insync.replicas",
             (("r.isr.size() < minIsr(s.config)", "false"),)),
    Weakened("unclean-seat", "KIP-966: who stopped uncleanly keeps its seat",
             (("not(r.clean) and not(s.config.trustIsr) and s.word.isr", "false and s.word.isr"),
              ("not(s.config.trustIsr) and r.role == \"none\" and not(r.registered) and not(r.clean)", "false"))),
    Weakened("cut-at-leaders-end", "KIP-279: a follower does not look for the epoch in its own log",
             (("    val own = endOf(mine, epoch)\n", "    val own = mine.length()\n"),)),
    Weakened("no-compare-and-set", "KIP-497: an ISR change is written whatever was written since it was sent",
             (("s.proposals.contains({ le: old.le, pe: old.pe, isr: w.isr })", "s.proposals.exists(p => p.isr == w.isr)"),
              ("s.proposals.filter(p => p.pe >= w.pe)", "s.proposals"))),
    Weakened("join-anywhere", "R9: who joins need not have reached the high watermark",
             (("joins.exists(m => r.remote.get(m) < r.hw or r.remote.get(m) < r.start)", "false"),)),
    Weakened("join-at-hw", "KAFKA-7128: who joins need not have reached the start of the term",
             (("r.remote.get(m) < r.hw or r.remote.get(m) < r.start", "r.remote.get(m) < r.hw"),)),
    Weakened("old-positions", "R5: a leader that missed a term goes by what its followers had before",
             (("r.role == \"leader\" and w.le == r.le + 1", "r.role == \"leader\""),)),
    Weakened("append-after-another", "KIP-595: a follower whose log is not its leader's takes records",
             (("end > term.log.length() or lastBefore(term.log, end) != last(r.log)", "end > term.log.length()"),
              ("not(isPrefix(log, term.log))", "false"))),
    Weakened("fall-back-after-write", "KIP-497: a change that was written is given up",
             (("s.word.le == r.le and s.word.pe > r.pe", "false"),)),
    Weakened("fall-back-on-unknown", "KAFKA-12684: a change is given up that may still be written",
             (("proposals: s.proposals.filter(p => p.le != r.le or p.pe != r.pe) })", "proposals: s.proposals })"),)),
    Weakened("begin-a-term-twice", "R12: a term that was given up is led again",
             (("s.terms.keys().contains(w.le)) no(s, \"R12 one leader", "false) no(s, \"R12 one leader"),)),
    Weakened("elect-anybody", "R14: who lives is fit",
             (("    (if (isr == Set()) elr else isr).intersect(active)\n", "    active\n"),
              ("alone and old.isr.exists(m => active.contains(m) and not(lost(s, m)))", "false"),
              ("elected and not(old.isr.union(old.elr).contains(w.leader)) and clean", "false"))),
)  # fmt: skip
