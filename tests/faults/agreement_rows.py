"""Rows 62 to 64 of the public faults: log-probs of the sampler and of the trainer."""

COVERED = {
    62: [
        "unit/rollout/test_hf_engine.py::test_behavior_logprobs_equal_the_trainers_while_filters_are_off",
        "unit/rollout/test_vllm_engine.py::test_behavior_logprobs_equal_the_trainers",
    ],
    63: [
        "unit/rollout/test_hf_engine.py::test_with_filters_on_they_are_of_the_distribution_drawn_from",
        "unit/rollout/test_vllm_engine.py::test_with_filters_on_they_are_of_the_distribution_drawn_from",
        "unit/training/test_corrected_step.py::test_a_corrected_step_moves_every_weight_by_the_exact_gradient",
    ],
    64: [
        "unit/rollout/test_vllm_engine.py::test_behavior_logprobs_equal_the_trainers",
        "unit/training/test_agreement.py::test_a_run_reports_both_and_warns_once_with_the_worst_sample",
        "unit/training/test_agreement.py::test_a_run_may_stop_at_the_step",
        "unit/tools/test_compare_logprobs.py::test_the_first_token_above_the_limit_is_named_and_the_exit_code_says_so",
        "unit/tools/test_compare_logprobs.py::test_each_row_is_shown_with_its_lengths_and_largest_distance",
    ],
}
