"""What a run says at its end."""

from pathlib import Path

from mmrl.training.closing import Closing, closing_lines, interrupted_line, stopped_line

RUN = Path("runs/x")
STEP_3, STEP_9 = RUN / "checkpoints" / "step-000003", RUN / "checkpoints" / "step-000009"
COUNTS = {"cache": {"hits": 24200, "misses": 3}, "seconds": {"step": 20.0, "update": 12.4, "rollout": 30.2}}


def test_closing_lines_name_both_checkpoints_and_what_to_try_next():
    closing = Closing(RUN, latest=(STEP_9, 0.4), best=(STEP_3, 0.5), watched="val/mean", unscored=0.125, **COUNTS)
    lines = closing_lines(closing).splitlines()
    assert lines[:6] == [
        "cache: 24200 hits, 3 misses",
        "seconds: rollout 30, update 12",
        "unscored: 12 % of the completions got no reward (reward/unscored per step)",
        "run folder: runs/x",
        f"best checkpoint: {STEP_3} (val/mean 0.500, the highest; of equal scores the earliest wins)",
        "latest checkpoint: runs/x/checkpoints/step-000009 (val/mean 0.400)",
    ]
    assert "mmrl export writes a folder whose processor has the training's budgets" in lines[6]
    assert lines[7:] == [
        "try next:",
        '  mmrl generate --model runs/x/checkpoints/step-000003/model --image PICTURE --prompt "..."',
        "  mmrl export runs/x exported",
        "  tensorboard --logdir runs/x",
        "  mmrl score runs/x/rollouts.jsonl --config runs/x/resolved.yaml",
    ]


def test_nothing_is_offered_that_is_not_there():
    closing = Closing(
        RUN, latest=(STEP_9, float("-inf")), best=None, watched=None, has_rollouts=False, tensorboard=False, **COUNTS
    )
    lines = closing_lines(closing).splitlines()
    assert "latest checkpoint: runs/x/checkpoints/step-000009" in lines
    assert lines[-2:] == [
        '  mmrl generate --model runs/x/checkpoints/step-000009/model --image PICTURE --prompt "..."',
        "  mmrl export runs/x exported --step latest",
    ]


def test_what_an_interruption_costs_and_how_a_run_goes_on():
    assert interrupted_line(7, saved_step=4, checkpoint=STEP_3, command="C") == (
        "interrupted: steps 5 to 7 are lost, runs/x/checkpoints/step-000003 is the newest checkpoint; go on with `C`"
    )
    assert "no finished step is lost" in interrupted_line(4, saved_step=4, checkpoint=STEP_3, command="C")
    assert interrupted_line(2, saved_step=0, checkpoint=None, command="C") == (
        "interrupted: steps 1 to 2 are lost, there is no checkpoint yet (checkpoint.every); begin again with `C`"
    )
    assert stopped_line(9, STEP_9, command="C").startswith(
        "stopped at step 9 on request (SIGTERM); checkpoint: runs/x/"
    )
