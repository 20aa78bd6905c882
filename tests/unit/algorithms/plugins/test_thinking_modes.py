"""Thinking modes: the label of a length, and which completions are forced into it."""

import pytest
from makers.batches import make_batch
from makers.plugin_values import end_step, plugin

from mmrl.data.sample import Sample
from mmrl.errors import DataError


class Drawn:
    """Prompts of these base lengths; a word is its letters."""

    most_tokens = 4

    def __init__(self, lengths):
        self.lengths = lengths
        self.prompt_ids = [f"s{n}" for n in range(len(lengths))]

    def sample(self, prompt):
        length = self.lengths[prompt]
        return Sample(f"s{prompt}", "t", "image", (), columns={} if length is None else {"base_length": length})

    def encode(self, text):
        return tuple(map(ord, text))


SHORT, LONG = tuple(map(ord, "Shor")), tuple(map(ord, "Long"))


def test_half_of_a_group_begins_in_the_mode_of_its_prompt():
    drawn, used = Drawn([80, 150, 260, None]), plugin("thinking_modes")
    found = used.hooks["prefixes"](drawn, [8, 8, 8, 3])
    assert found == [[SHORT] * 4 + [()] * 4, [()] * 8, [LONG] * 4 + [()] * 4, [()] * 3]
    metrics = end_step(used, make_batch([1]))
    assert metrics == {"thinking_modes/short": 1.0, "thinking_modes/long": 1.0, "thinking_modes/none": 2.0}
    assert end_step(used, make_batch([1]))["thinking_modes/none"] == 0.0


@pytest.mark.parametrize(("share", "forced"), [(0.0, 0), (0.5, 2), (1.0, 5)])
def test_the_share_and_the_words_are_options(share, forced):
    used = plugin("thinking_modes", share=share, short_words="Hm")
    assert used.hooks["prefixes"](Drawn([1]), [5]) == [[(72, 109)] * forced + [()] * (5 - forced)]


def test_prompts_between_the_two_may_be_dropped():
    batch = make_batch([1] * 4, gid=[0, 1, 2, 2])
    for only, kept in ((True, [True, False, True, True]), (False, [True] * 4)):
        used = plugin("thinking_modes", only_labelled=only)
        used.hooks["prefixes"](Drawn([99.5, 100, 201]), [1, 1, 2])
        assert used.hooks["keep"](batch, batch.rewards_NK[:, 0]).tolist() == kept


def test_a_length_that_is_no_number_is_an_error():
    with pytest.raises(DataError, match="'base_length' must be a number of tokens, not 'long'"):
        plugin("thinking_modes").hooks["prefixes"](Drawn(["long"]), [1])
