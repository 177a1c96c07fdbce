"""Where a run is kept, and the report that Spark makes of it: a Job after the end, and what is told of that."""

from __future__ import annotations

import errno
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from minikafka_chaos.controller import runner
from minikafka_chaos.controller.jobs import JobSettings, ReportSettings
from minikafka_chaos.controller.main import parse
from minikafka_chaos.errors import ToolTrouble
from minikafka_chaos.experiment.kinds import JOB
from minikafka_kube.api_server import ApiError
from minikafka_kube.kinds import CLAIM, POD

from tests.unit.chaos.controller.world import NAMESPACE, SCENARIO, Killed, World

SETTINGS = JobSettings(
    "minikafka/chaos:1",
    runs_claim="runs",
    report=ReportSettings("minikafka/analytics:1", account="spark", executors=2, desk="desk"),
)
REPORT = "try-report"


def world(
    spec: dict[str, Any] | None = None, settings: JobSettings = SETTINGS, claims: tuple[str, ...] = ("runs",)
) -> World:
    made = World(spec, settings=settings)
    for claim in claims:
        made.server.put(CLAIM, claim, {"spec": {"accessModes": ["ReadWriteOnce"]}, "status": {"phase": "Bound"}})
    return made


async def ended(made: World, verdict: str = "Passed") -> World:
    """Until there is a verdict, and nothing more is done without the report's Job."""
    await made.settle()
    assert made.phase == "Running", made.status
    ledger = made.ledger()
    ledger.take()
    ledger.set_fields(run="try-00000000", verdict=verdict, summary="said")
    made.job_ends()
    await made.settle()
    assert made.phase == "Completed"
    return made


def driver_ends(made: World, code: int, message: str = "") -> None:
    """The report's Job ends, with its pod."""
    job = made.server.objects[JOB.name, REPORT]
    how = "Complete" if code == 0 else "Failed"
    job["status"] = {"conditions": [{"type": how, "status": "True", "message": "Job has reached the backoff limit"}]}
    state = {"terminated": {"exitCode": code, "reason": "Error" if code else "Completed", "message": message}}
    status = {"phase": "Failed", "containerStatuses": [{"name": "driver", "state": state}]}
    labels = job["spec"]["template"]["metadata"]["labels"]
    owner = [{"kind": JOB.name, "name": REPORT, "uid": job["metadata"]["uid"], "controller": True}]
    metadata = {"labels": labels, "ownerReferences": owner}
    made.server.put(POD, f"{REPORT}-xyz", {"metadata": metadata, "spec": {}, "status": status})


def said(verdict: str, *, agree: bool = True, sentence: str = "So it is.") -> str:
    runs = [{"id": "try-00000000", "verdict": verdict, "sentence": sentence, "agree": agree}]
    return (
        "something else\n" + json.dumps({"html": "/runs/try/report.html", "verdicts": [verdict], "runs": runs}) + "\n"
    )


async def reported(made: World) -> tuple[str, str, str]:
    await made.settle()
    return made.condition("Reported")


class TestTheReport:
    async def test_made_by_a_job_that_is_the_experiments(self) -> None:
        made = await ended(world())
        job = made.server.objects[JOB.name, REPORT]
        (container,) = job["spec"]["template"]["spec"]["containers"]
        folder = f"/runs/try-{made.experiment['metadata']['uid'][:8]}"
        assert container["args"][:3] == ["analyze", folder, "--master=k8s://"]
        assert "--conf=spark.executor.instances=2" in container["args"]
        assert job["metadata"]["ownerReferences"][0]["uid"] == made.experiment["metadata"]["uid"]
        assert job["spec"]["template"]["spec"]["serviceAccountName"] == "spark"
        assert made.condition("Reported")[:2] == ("Unknown", "ReportGoingOn")
        driver_ends(made, 0)
        assert (await reported(made))[:2] == ("True", "ReportMade")
        assert made.status["report"] == {
            "claim": "runs",
            "path": "try-00000000/report.html",
            "verdict": "Passed",
            "copy": f"kubectl --namespace {NAMESPACE} exec deploy/desk -- "
            "cat /runs/try-00000000/report.html > report.html",
        }
        assert "ReportMade" in [reason for reason, _ in made.server.events]

    async def test_what_its_pod_waits_for(self) -> None:
        """No node had room for Spark, and nothing said so before the Job's deadline."""
        made = await ended(world())
        driver_ends(made, 0)
        made.server.objects[JOB.name, REPORT]["status"] = {}
        pod = made.server.objects[POD.name, f"{REPORT}-xyz"]
        unbound = {"type": "PodScheduled", "status": "False", "message": "0/1 nodes: Insufficient memory"}
        pod["status"] = {"phase": "Pending", "conditions": [unbound]}
        says = f"Job {REPORT} makes it; it has not begun: pod {REPORT}-xyz: 0/1 nodes: Insufficient memory"
        assert await reported(made) == ("Unknown", "ReportGoingOn", says)
        assert ("ReportGoingOn", says) in made.server.events
        before = made.server.writes
        await made.look()
        assert made.server.writes == before, "told once"
        pod["status"] = {"phase": "Running"}
        assert (await reported(made))[2] == f"Job {REPORT} makes it"

    async def test_a_pod_that_only_has_its_labels_says_nothing(self) -> None:
        """It may be of an earlier experiment of the name, or of anybody."""
        made = await ended(world())
        driver_ends(made, 0)
        made.server.objects[POD.name, f"{REPORT}-xyz"]["metadata"]["ownerReferences"][0]["uid"] = "of-the-first"
        assert (await reported(made))[:2] == ("False", "ReportFailed")

    async def test_a_failed_run_is_reported_too(self) -> None:
        """`minikafka analyze` ends with 1 where the verdict is Failed, and so does its Job."""
        made = await ended(world(), "Failed")
        driver_ends(made, 1, said("Failed"))
        assert (await reported(made))[:2] == ("True", "ReportMade")
        assert made.status["report"]["verdict"] == "Failed"

    async def test_inconclusive_to_both(self) -> None:
        made = await ended(world(), "Inconclusive")
        driver_ends(made, 3, said("Inconclusive"))
        assert (await reported(made))[:2] == ("True", "ReportMade")

    @pytest.mark.parametrize(
        ("code", "message"),
        [
            (3, said("Failed", agree=False, sentence="The two judges differ.")),
            (1, said("Failed")),
        ],
        ids=["it says so itself", "it read another verdict in the journal"],
    )
    async def test_one_that_disagrees_changes_no_verdict(self, code: int, message: str) -> None:
        made = await ended(world())
        driver_ends(made, code, message)
        status, reason, says = await reported(made)
        assert (status, reason) == ("False", "ReportDisagrees")
        assert says.startswith("the verifier says Passed, Spark Failed: ")
        assert (made.phase, made.status["verdict"]) == ("Completed", "Passed")
        assert made.status["report"]["path"] == "try-00000000/report.html"
        assert made.condition("Complete")[:2] == ("True", "Verdict")

    async def test_a_result_is_one_line_whatever_it_says(self) -> None:
        """A driver prints text as it is, and a line separator of Unicode, say in a scenario's words, ends no line of JSON."""
        made = await ended(world())
        sentence = "one\u2028two\x85three"
        run = {"verdict": "Failed", "agree": False, "sentence": sentence}
        driver_ends(made, 3, json.dumps({"runs": [run]}, ensure_ascii=False) + "\n")
        status, reason, says = await reported(made)
        assert (status, reason) == ("False", "ReportDisagrees") and "Failed" in says

    @pytest.mark.parametrize(
        ("code", "message", "says"),
        [
            (
                3,
                "minikafka analyze: the disk is full: free some space",
                "the disk is full: free some space (exit code 3)",
            ),
            (137, "", "Job try-report: Error (exit code 137)"),
            (2, '{"runs": []}', "(exit code 2)"),
        ],
    )
    async def test_one_that_fails(self, code: int, message: str, says: str) -> None:
        made = await ended(world())
        driver_ends(made, code, message)
        status, reason, told = await reported(made)
        assert (status, reason) == ("False", "ReportFailed") and says in told
        assert "report" not in made.status and made.status["verdict"] == "Passed"
        made.server.objects.pop((JOB.name, REPORT))
        await made.settle()
        assert (JOB.name, REPORT) not in made.server.objects, "it is not tried again by itself"

    async def test_the_job_that_lost_its_pod(self) -> None:
        made = await ended(world())
        made.server.objects[JOB.name, REPORT]["status"] = {
            "conditions": [{"type": "Failed", "status": "True", "message": "Job was active longer than deadline"}]
        }
        assert (await reported(made))[1:] == ("ReportFailed", "Job try-report: Job was active longer than deadline")

    async def test_a_job_that_the_api_server_refuses(self) -> None:
        made = world()
        await made.settle()
        ledger = made.ledger()
        ledger.take()
        ledger.set_fields(run="try-00000000", verdict="Passed", summary="said")
        made.server.refuses[JOB.name] = ApiError(403, "Forbidden", "exceeded quota: few")
        made.job_ends()
        says = f"Job {REPORT} is refused: exceeded quota: few"
        assert await reported(made) == ("False", "ReportFailed", says)
        assert (made.phase, made.status["verdict"]) == ("Completed", "Passed")

    async def test_somebody_elses_job(self) -> None:
        made = world()
        made.server.put(JOB, REPORT, {"spec": {"template": {"metadata": {"labels": {}}}}})
        await made.settle()
        made.ledger().take()
        made.ledger().set_fields(run="try-00000000", verdict="Passed")
        made.job_ends()
        assert (await reported(made))[1:] == ("ReportFailed", "there is a Job try-report that is not this experiment's")

    async def test_it_waits_for_no_report_where_none_is_wanted(self) -> None:
        made = await ended(world(settings=JobSettings("minikafka/chaos:1", runs_claim="runs")))
        assert made.condition("Reported") == ("", "", "")
        assert (JOB.name, REPORT) not in made.server.objects

    async def test_the_object_stays_until_it_is_made(self) -> None:
        made = await ended(world({**SCENARIO, "ttlSecondsAfterFinished": 0}))
        made.pass_time(100)
        await made.look()
        assert made.there
        driver_ends(made, 0)
        await made.look()
        await made.look()
        assert not made.there and (JOB.name, REPORT) not in made.server.objects

    @pytest.mark.slow
    @pytest.mark.parametrize("after", [False, True])
    async def test_a_controller_that_dies_at_each_write(self, after: bool) -> None:
        whole = await ended(world())
        driver_ends(whole, 0)
        await whole.settle()
        for write in range(1, whole.server.writes + 1):
            made = world()
            made.server.dies_at, made.server.dies_after = write, after
            try:
                await ended(made)
                driver_ends(made, 0)
                await made.settle()
            except Killed:
                made.server.dies_at = None
                made.new_reconciler()
                await made.settle()
                if made.phase == "Running":
                    made.ledger().take()
                    made.ledger().set_fields(run="try-00000000", verdict="Passed")
                    made.job_ends()
                    await made.settle()
                if made.condition("Reported")[0] == "Unknown":
                    driver_ends(made, 0)
            assert (await reported(made))[:2] == ("True", "ReportMade"), write


class TestTheClaim:
    async def test_of_the_experiment_comes_first(self) -> None:
        made = world({**SCENARIO, "runs": {"claim": "mine"}}, claims=("runs", "mine"))
        await ended(made)
        assert made.status["runsClaim"] == "mine"
        for name in ("try-run", REPORT):
            volumes = made.server.objects[JOB.name, name]["spec"]["template"]["spec"]["volumes"]
            assert {"name": "runs", "persistentVolumeClaim": {"claimName": "mine"}} in volumes

    async def test_the_chart_names_another_meanwhile(self) -> None:
        """Seen on kind: the report was looked for where the run is not."""
        made = world(claims=("runs", "others"))
        await made.settle()
        made.settings = replace(SETTINGS, runs_claim="others")
        made.new_reconciler()
        await ended(made)
        volumes = made.server.objects[JOB.name, REPORT]["spec"]["template"]["spec"]["volumes"]
        assert {"name": "runs", "persistentVolumeClaim": {"claimName": "runs"}} in volumes

    async def refused(self, made: World, reason: str) -> str:
        await made.settle()
        status, why, message = made.condition("Accepted")
        assert (made.phase, status, why) == ("Refused", "False", reason)
        assert made.lease_holder() == "" and (JOB.name, "try-run") not in made.server.objects
        return message

    async def test_that_is_not_there(self) -> None:
        message = await self.refused(world({**SCENARIO, "runs": {"claim": "nowhere"}}), "ClaimNotFound")
        assert message == "runs.claim: there is no PersistentVolumeClaim nowhere in this namespace"

    async def test_nothing_is_made_for_an_experiment_without_its_claim(self) -> None:
        spec = {key: value for key, value in SCENARIO.items() if key != "clusterRef"}
        made = world({**spec, "cluster": {"brokers": 3}}, claims=())
        await self.refused(made, "ClaimNotFound")
        assert [name for kind, name in made.server.objects if kind == "MiniKafkaCluster"] == ["shop"]

    async def test_that_may_only_be_read(self) -> None:
        made = world()
        made.server.objects[CLAIM.name, "runs"]["spec"]["accessModes"] = ["ReadOnlyMany"]
        assert "is ReadOnlyMany; allowed: ReadWriteMany" in await self.refused(made, "ClaimNotWritable")

    async def test_none(self) -> None:
        made = world(settings=JobSettings("minikafka/chaos:1", report=SETTINGS.report))
        await ended(made)
        assert made.condition("Reported")[:2] == ("False", "NoClaim")
        assert made.status["verdict"] == "Passed" and (JOB.name, REPORT) not in made.server.objects


class TestTheFolder:
    """Told before any fault is made."""

    PLACE = runner._place({"status": {"runsClaim": "results"}}, Path("/runs"))

    def test_two_runs_with_one_id(self, tmp_path: Any) -> None:
        runner._make_folder(tmp_path / "runs" / "demo-1", self.PLACE)
        with pytest.raises(ToolTrouble, match="there is a run demo-1 on the volume for runs already"):
            runner._make_folder(tmp_path / "runs" / "demo-1", self.PLACE)

    def test_a_claim_that_cannot_be_written(self, tmp_path: Any) -> None:
        (tmp_path / "runs").write_text("a file, so that root cannot write below it either")
        with pytest.raises(ToolTrouble, match="PersistentVolumeClaim results cannot be written by user"):
            runner._make_folder(tmp_path / "runs" / "demo-1", self.PLACE)

    def test_a_claim_that_is_full(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def full(path: Path, **_: object) -> None:
            raise OSError(errno.ENOSPC, "No space left on device", str(path))

        monkeypatch.setattr(Path, "mkdir", full)
        with pytest.raises(ToolTrouble, match=r"kept on PersistentVolumeClaim results: No space .* or make it larger"):
            runner._make_folder(Path("/runs/demo-1"), self.PLACE)


def test_the_options_of_the_chart() -> None:
    words = ["--runner-image=c:1", "--runs-claim=runs", "--report-image=a:1", "--report-executors=3", "--namespace=lab"]
    words += ["--report-account=spark", "--report-desk=d", '--report-resources={"limits": {"memory": "3Gi"}}']
    report = parse(words).jobs.report
    assert report is not None
    assert (report.image, report.account, report.executors, report.desk) == ("a:1", "spark", 3, "d")
    assert report.resources == {"limits": {"memory": "3Gi"}}
    assert parse(["--runner-image=c:1", "--namespace=lab"]).jobs.report is None


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("--report-resources=[1]", "allowed: a JSON object"),
        ("--report-executors=-1", "allowed: 0 or more"),
        ("--report-pull-policy=Sometimes", "allowed: Always, IfNotPresent, Never"),
    ],
)
def test_bad_options(word: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["--runner-image=c:1", "--report-image=a:1", "--namespace=lab", word])
    assert says in capsys.readouterr().err
