"""Holds our scores, reducers and metrics against Inspect's own functions. Arguments: the command, and an empty directory."""

import json
import math
import random
import subprocess
import sys
from pathlib import Path

from inspect_ai.log import (
    EvalConfig,
    EvalDataset,
    EvalLog,
    EvalPlan,
    EvalSample,
    EvalSpec,
    EvalStats,
    read_eval_log,
    read_eval_log_sample_summaries,
    write_eval_log,
)
from inspect_ai.log._log import EvalScorer
from inspect_ai.model import ChatMessageAssistant, ChatMessageUser, ContentText, ModelOutput
from inspect_ai.scorer import SampleScore, Score, accuracy, bootstrap_stderr, ci, grouped, mean, std, stderr, value_to_float, var
from inspect_ai.scorer._classification import max_exact_score, max_f1_score
from inspect_ai.scorer._common import match_str
from inspect_ai.scorer._reducer import create_reducers

command, place = sys.argv[1], Path(sys.argv[2])
random.seed(20260511)


def run(*arguments):
    done = subprocess.run([command, "--json", *map(str, arguments)], capture_output=True, text=True)
    return done.returncode, json.loads(done.stdout) if done.stdout.strip() else None, done.stderr


def good(*arguments):
    code, said, errors = run(*arguments)
    assert code == 0, (arguments, code, errors)
    return said


def close(ours, theirs, where):
    assert math.isclose(ours, theirs, rel_tol=1e-9, abs_tol=1e-12), f"{where}: {ours}, and Inspect has {theirs}"


# -- Words and numbers: many answers, judged by both.

WORDS = ["the", "a", "Paris", "paris.", "(42)", "3.14", "3,14", "-5", "well-known", "$1,200.50", "1e3", "½", "2½", "3²", "−7", "１２",
         "GRADE:", "don't", "x", "42", "42.0", "042", "60%", "~42", "**7**", "_8_", r"\$20", "4.", "5,", "six", "", "\n", "1'000", "٣", "⅔", "1_000", "Straße"]
NUMBERS = ["42", "3.14", "1200.5", "-7", "2.5", "9", "12", "1000", "0.66667", "20", "7", "8", "3", "six", "60%", "1e3"]


def text(pool, most):
    return " ".join(random.choice(pool) for _ in range(random.randint(1, most))).strip() or "x"


cases = [{"id": f"c{n}", "input": text(WORDS, 6), "target": [text(WORDS, 3) for _ in range(random.randint(1, 2))]} for n in range(1500)]
cases = [case for case in cases if case["input"].strip() and all(target.strip(" .()*_\"'$%:~-") for target in case["target"])]
cases += [{"id": f"n{n}", "input": text(WORDS + NUMBERS, 5), "target": [random.choice(NUMBERS)]} for n in range(1500)]
cases = [case for case in cases if case["input"].strip()]
places = ["begin", "end", "any", "exact"]
scorers = ["f1", "exact"] + [{"kind": "match", "location": at, "numeric": numeric} for at in places for numeric in (True, False)]
(place / "cases.jsonl").write_text("".join(json.dumps(case) + "\n" for case in cases))
(place / "cases.yaml").write_text(
    f"profile: T2.H1.N2\nmodel: mock/echo\ndataset: cases.jsonl\nscorer: {json.dumps(scorers)}\n"
)
log = read_eval_log(good("eval", place / "cases.yaml", "--log-dir", place / "logs")["log"])
names = ["f1", "exact"] + ["match" if n == 0 else f"match_{n + 1}" for n in range(8)]
different = []
for sample in log.samples:
    answer, targets = sample.output.completion, sample.target if isinstance(sample.target, list) else [sample.target]
    expected = {"f1": max_f1_score(answer, targets), "exact": "C" if max_exact_score(answer, targets) == 1.0 else "I"}
    for name, (at, numeric) in zip(names[2:], [(at, numeric) for at in places for numeric in (True, False)]):
        matched = [match_str(answer, target, location=at, numeric=numeric) for target in targets]
        right = next((found for found, is_right in matched if is_right), None)
        expected[name] = "I" if right is None else "C"
    ours = {name: score.value for name, score in sample.scores.items()}
    if ours != expected:
        different.append((answer, targets, {name: (ours[name], expected[name]) for name in expected if ours[name] != expected[name]}))
assert not different, (len(different), different[:10])
for name in names:
    values = {str(sample.scores[name].value) for sample in log.samples}
    assert len(values) >= 2, f"{name} says {values} of everything"
print(f"{len(log.samples)} answers, judged as Inspect does by {len(names)} scorers")

# -- A log of Inspect's, with epochs, groups, scores that are none, and scores of many values.

SAMPLES, EPOCHS = 40, 6


def completion(sample):
    target = f"one two three {sample}"
    kept = [word for word in target.split() if random.random() < 0.6]
    return " ".join(kept) if random.random() < 0.7 else target


samples = [
    EvalSample(
        id=sample if sample % 2 else f"s{sample}",
        epoch=epoch,
        input=[ChatMessageUser(content=[ContentText(text=f"question {sample}")])],
        target=f"one two three {sample}",
        metadata={"level": random.Random(sample).choice(["easy", "hard", "odd"]), "cluster": sample % 7},
        messages=[ChatMessageUser(content="q"), ChatMessageAssistant(content="a")],
        output=ModelOutput.from_content("mockllm/model", completion(sample)),
        scores={
            "old": Score(value=float("nan") if sample % 5 == 0 else "C", explanation="NaN is not a number"),
            "many": Score(value={"a": 1.0, "b": float("nan")}),
        },
    )
    for epoch in range(1, EPOCHS + 1)
    for sample in range(1, SAMPLES + 1)
]
spec = EvalSpec(
    created="2026-10-04T12:30:00+00:00", task="theirs", model="mockllm/model", dataset=EvalDataset(samples=SAMPLES),
    config=EvalConfig(epochs=EPOCHS, epochs_reducer=["mean"]), scorers=[EvalScorer(name="old"), EvalScorer(name="many")],
)
reducers = ["mean", "median", "mode", "max", "at_least_2", "at_least_6", "pass_at_1", "pass_at_3", "pass_at_6"]
metrics = [
    "accuracy", "mean", "std", "var", "stderr", "{stderr: {cluster: cluster}}", "{bootstrap: {resamples: 4000, level: 0.9}}",
    "{grouped: {by: level, metrics: [mean, stderr]}}",
]


def reduced(log, scorer, reducer):
    by_sample = {}
    for sample in log.samples:
        by_sample.setdefault(sample.id, []).append(sample)
    reduce = create_reducers(reducer)[0]
    return [
        SampleScore(score=reduce([one.scores[scorer] for one in sorted(group, key=lambda one: one.epoch)]), sample_id=name, sample_metadata=group[0].metadata)
        for name, group in by_sample.items()
    ]


for ending in ["eval", "json"]:
    theirs = place / f"theirs-{ending}.{ending}"
    # Their JSON documents hold numbers that JSON does not have; of those we read the zip only.
    kept = samples if ending == "eval" else [one.model_copy(update={"scores": {"old": Score(value="C")}}) for one in samples]
    write_eval_log(EvalLog(status="success", eval=spec, plan=EvalPlan(), stats=EvalStats(), samples=kept), str(theirs))
    before = theirs.read_bytes()
    arguments = ["score", theirs, "--scorer", "f1", "--scorer", "{kind: match, location: exact}"]
    arguments += [part for metric in metrics for part in ("--metric", metric)]
    arguments += [part for reducer in reducers for part in ("--epochs-reducer", reducer)]
    said = good(*arguments)
    assert theirs.read_bytes() == before and said["log"].endswith(f"theirs-{ending}-scored.{ending}")
    old, new = read_eval_log(str(theirs)), read_eval_log(said["log"])
    assert new.status == "success" and len(new.samples) == len(samples) == said["judged"]
    assert len(read_eval_log_sample_summaries(said["log"])) == len(samples)
    assert [scorer.name for scorer in new.eval.scorers] == ["old", "many", "f1", "match"]
    history = new.eval.metadata["ringfence_scored"]
    assert len(history) == 1 and len(history[0]["from"]["sha256"]) == 64 and history[0]["scorers"] == ["f1", "match"]
    by_key = {(sample.id, sample.epoch): sample for sample in new.samples}
    for sample in old.samples:
        again = by_key[sample.id, sample.epoch]
        ours, theirs_ = again.model_dump(mode="json"), sample.model_dump(mode="json")
        assert {key: value for key, value in ours.items() if key not in ("scores", "events")} == {
            key: value for key, value in theirs_.items() if key not in ("scores", "events")
        }
        assert again.events[: len(sample.events)] == sample.events and len(again.events) > len(sample.events)
        for name, score in sample.scores.items():
            assert repr(again.scores[name]) == repr(score), name
        assert again.scores["f1"].value == max_f1_score(sample.output.completion, [sample.target])
        assert again.scores["f1"].history[-1].provenance.author
    results = {(score.scorer, score.reducer): score for score in new.results.scores}
    for scorer in ["f1", "match"]:
        for reducer in reducers:
            ours, scores = results[scorer, reducer], reduced(new, scorer, reducer)
            where = f"{scorer} {reducer}"
            assert (ours.scored_samples, ours.unscored_samples) == (SAMPLES, 0), where
            kept = next(one for one in new.reductions if (one.scorer, one.reducer) == (scorer, reducer))
            values = {one.sample_id: value_to_float()(one.value) for one in kept.samples}
            for score in scores:
                close(values[score.sample_id], value_to_float()(score.score.value), f"{where} of {score.sample_id}")
            value = {name: metric.value for name, metric in ours.metrics.items()}
            for name, metric in [("accuracy", accuracy()), ("mean", mean()), ("std", std()), ("var", var()), ("stderr", stderr()), ("stderr2", stderr(cluster="cluster"))]:
                close(value[name], metric(scores), f"{where} {name}")
            for name, metric in [("mean", mean()), ("stderr", stderr())]:
                for group, theirs_ in grouped(metric, "level")(scores).items():
                    close(value[f"{name}_{group}"], theirs_, f"{where} {name} of {group}")
            # Draws are drawn: theirs are others each time.
            error = bootstrap_stderr(4000)(scores)
            assert abs(value["bootstrap_stderr"] - error) <= 0.08 * error + 1e-12, (where, value["bootstrap_stderr"], error)
            interval = ci(level=0.9, method="bootstrap", num_samples=4000)(scores)
            # And their means go in steps: one sample's value against another's.
            known = sorted({value_to_float()(score.score.value) for score in scores})
            step = max((high - low for low, high in zip(known, known[1:])), default=0.0) / SAMPLES
            for name, theirs_ in [("bootstrap_low", interval["lower"]), ("bootstrap_high", interval["upper"])]:
                assert abs(value[name] - theirs_) <= 0.3 * error + step + 1e-12, (where, name, value[name], theirs_)
    # The same again says the same.
    assert good(*arguments, "--output", place / f"again-{ending}.eval")["results"] == said["results"]

    # In their place, and by groups.
    there = place / f"replaced-{ending}.eval"
    said = good("score", said["log"], "--scorer", "f1", "--action", "overwrite", "--output", there, "--metric", "{grouped: {by: level, all: groups}}")
    replaced = read_eval_log(str(there))
    assert {name for sample in replaced.samples for name in sample.scores} == {"f1"}
    assert all(len(sample.scores["f1"].history) == 2 for sample in replaced.samples)
    assert len(replaced.eval.metadata["ringfence_scored"]) == 2
    value = {name: metric.value for name, metric in replaced.results.scores[0].metrics.items()}
    scores = reduced(replaced, "f1", "mean")
    for group, theirs_ in grouped(accuracy(), "level", all="groups")(scores).items():
        close(value[f"accuracy_{group}"], theirs_, f"groups of {group}")
    subprocess.run([command, "log", "verify", str(there)], check=True, capture_output=True)

# -- What cannot be.

theirs = place / "theirs-eval.eval"
for wrong, word in [
    (["--scorer", "f1", "--epochs-reducer", "pass_at_7"], "needs 7 epochs, and there are 6"),
    (["--scorer", "f1", "--metric", "{grouped: {by: colour}}"], "has no `colour` in its `metadata`"),
    (["--scorer", "choice"], "is not the letter of one of its choices"),
    (["--scorer", "{kind: script, script: 'true'}"], "which a log does not hold"),
    (["--scorer", "f1", "--output", theirs], "is there already"),
]:
    code, said, errors = run("score", theirs, *wrong)
    assert code == 2 and word in errors + json.dumps(said), (wrong, code, said, errors)
print(f"{2 * len(reducers)} reductions and {len(metrics)} metrics of Inspect's own logs, as Inspect has them")
