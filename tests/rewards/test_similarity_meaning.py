"""What encoders with real weights make of real photos and sentences, through the rewards themselves."""

import numpy as np
import pytest
from makers.real_encoders import picture_encoder, sentence_encoder
from makers.tiny_encoders import tiny_encoder
from PIL import Image, ImageFilter
from skimage import data as photos

from mmrl.config.encoder_section import read_encoder
from mmrl.data.sample import MediaRef, Sample
from mmrl.scoring.encoders import load_encoder
from mmrl.scoring.pool import RewardCall, run_call
from mmrl.scoring.similarities import layer_cosine

NAMES = ("astronaut", "chelsea", "coffee", "rocket")


@pytest.fixture(scope="module")
def lite0(tmp_path_factory):
    return picture_encoder(tmp_path_factory.mktemp("lite0"))


def crops(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Two overlapping parts of one photo."""
    photo = getattr(photos, name)()
    side = int(0.8 * min(photo.shape[:2]))
    return photo[:side, :side], photo[-side:, -side:]


def test_two_crops_of_a_photo_are_more_alike_than_two_photos(lite0):
    encoder = load_encoder(read_encoder(lite0))
    first, second = (encoder.pictures([crops(name)[side] for name in NAMES]) for side in (0, 1))
    cosines = first @ second.T
    same, other = np.diag(cosines), cosines[~np.eye(len(NAMES), dtype=bool)]
    assert same.min() > other.max() + 0.1


def test_perceptual_similarity_falls_with_blur(lite0):
    encoder = load_encoder(read_encoder(lite0))
    photo = Image.fromarray(photos.chelsea())
    blurred = [np.asarray(photo.filter(ImageFilter.GaussianBlur(radius))) for radius in (0, 1, 3, 8)]
    maps = encoder.layers([photos.chelsea(), *blurred])
    alike = [layer_cosine(found, maps[0]) for found in maps[1:]]
    assert alike[0] == pytest.approx(1.0, abs=1e-5)
    assert alike == sorted(alike, reverse=True) and alike[-1] < 0.8


SVG = "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 64 64'>{}</svg>"
HALVES = SVG.format("<rect width='32' height='64' fill='red'/><rect x='32' width='32' height='64' fill='blue'/>")
SWAPPED = SVG.format("<rect width='32' height='64' fill='blue'/><rect x='32' width='32' height='64' fill='red'/>")
RED = SVG.format("<rect width='64' height='64' fill='red'/>")


@pytest.mark.parametrize("measure", ["layers", "position", "patches"])
def test_a_drawing_by_its_feature_maps_is_most_like_itself(lite0, measure):
    options = {"encoder": lite0, "measure": measure, "scale": "raw"}
    drawn = (HALVES, SWAPPED, RED, "no drawing")
    call = RewardCall("image_similarity", None, options, ((answered(HALVES), drawn),))
    itself, swapped, red, nothing = run_call(call)
    assert itself.value == pytest.approx(1.0, abs=1e-4)
    assert max(swapped.value, red.value) < 0.97 and nothing.value == -1.0


def test_patches_find_their_like_anywhere_and_both_ways(lite0):
    sample = answered(HALVES)

    def values(**options):
        call = RewardCall("image_similarity", None, {"encoder": lite0, **options}, ((sample, (SWAPPED, RED)),))
        return [outcome.value for outcome in run_call(call)]

    by_place, both_ways = values(measure="position"), values(measure="patches")
    one_way = values(measure="patches", official=True)
    assert both_ways[0] > by_place[0]
    assert one_way[1] > both_ways[1]


def test_the_goal_picture_is_nearer_to_its_own_scene(lite0):
    goal, later = crops("coffee")
    near, far = (row(goal, crops("rocket")[0], last) for last in (later, crops("rocket")[1]))
    outcomes = scored("goal_image", near, far, encoder=lite0, relative=True)
    assert outcomes[0].value > 0.3 and outcomes[1].value < 0.1


def test_steps_of_a_demonstration_are_found_again(lite0, tmp_path):
    """Steps: a photo as it is, in gray, blurred. The demonstration shows one crop, the row another one."""

    def stages(picture: np.ndarray) -> list[np.ndarray]:
        image = Image.fromarray(picture)
        shifted = [image, image.convert("L").convert("RGB"), image.filter(ImageFilter.GaussianBlur(12))]
        return [np.roll(np.asarray(s), shift, axis=1) for s in shifted for shift in (0, 4, 8)]

    shown, tried = crops("coffee")
    files = []
    for number, frame in enumerate(stages(shown)):
        files.append(str(tmp_path / f"{number}.png"))
        Image.fromarray(frame).save(files[-1])
    whole, start = row(*stages(tried)), row(*stages(tried)[:3])
    options = {"encoder": lite0, "demonstrations": [files]}
    done, begun = scored("demonstration_steps", whole, start, **options)
    assert done.value > 0.5 > 0.3 > begun.value


def test_a_paraphrase_is_nearer_than_another_statement():
    outcomes = run_call(
        RewardCall(
            "text_similarity",
            None,
            {"encoder": sentence_encoder()},
            (
                (answered("A man is riding a horse along the beach."), ("Someone rides a horse by the sea.", "A cat.")),
                (answered("The chart shows rising sales."), ("Sales go up in the diagram.", "A man rides a horse.")),
            ),
        )
    )
    right, wrong = [o.value for o in outcomes[::2]], [o.value for o in outcomes[1::2]]
    assert min(right) > 0.5 > 0.3 > max(wrong)


@pytest.mark.parametrize("kind", ["open_clip", "clip", "siglip"])
def test_captions_run_on_every_kind_of_text_image_encoder(kind, tmp_path):
    """Random weights: no meaning, but scores of one form and in bounds."""
    options = {"encoder": tiny_encoder(kind, tmp_path)}
    row_ = Sample("s", "t", "image", (), media=(MediaRef("image", photos.astronaut()),))
    call = RewardCall("clip_similarity", None, options, ((row_, ("a red square", "the cat", "")),))
    values = [outcome.value for outcome in run_call(call)]
    assert values[2] == 0.0 and 0.0 < values[0] < 1.0 and values[0] != values[1]


def row(*pictures: np.ndarray) -> Sample:
    return Sample("s", "t", "image", (), media=tuple(MediaRef("image", np.ascontiguousarray(p)) for p in pictures))


def answered(answer: str) -> Sample:
    return Sample("s", "t", "image", (), answer=answer)


def scored(name: str, *samples: Sample, **options) -> list:
    outcomes = run_call(RewardCall(name, None, options, tuple((sample, ("",)) for sample in samples)))
    assert not any(outcome.event for outcome in outcomes), outcomes
    return outcomes
