"""Questions between two threads: none is lost, at most so many wait, and each side can end it."""

import threading
import time

from mmrl.evaluate.handover import Handover


def given_by_a_thread(store, blocks):
    said = []

    def give():
        said.extend(store.give(block) for block in blocks)
        store.close()

    thread = threading.Thread(target=give)
    thread.start()
    return thread, said


def test_everything_arrives_in_order_and_no_more_than_fits_waits():
    store = Handover(8)
    blocks = [list(range(n, n + 1 + n % 4)) for n in range(0, 400, 4)]
    thread, said = given_by_a_thread(store, blocks)
    taken = []
    while items := store.take(3, waits=True):
        assert len(items) <= 3 and len(store._items) <= 8
        taken += items
    thread.join()
    assert taken == [item for block in blocks for item in block] and all(said) and store.is_over


def test_a_full_store_is_filled_again_when_it_is_half_empty():
    store = Handover(4)
    assert store.give([1, 2]) and store.give([3, 4])
    thread, said = given_by_a_thread(store, [[5, 6]])
    assert store.take(1, waits=False) == [1]
    time.sleep(0.2)
    assert not said and thread.is_alive()
    assert store.take(1, waits=False) == [2]
    thread.join(timeout=10.0)
    assert said == [True] and store.take(9, waits=True) == [3, 4, 5, 6] and store.is_over


def test_nobody_waits_for_one_who_is_gone():
    store = Handover(2)
    assert store.give([1, 2]) and store.take(0, waits=False) == []
    thread, said = given_by_a_thread(store, [[3]])
    store.close()
    thread.join(timeout=10.0)
    assert said == [False]
    assert store.take(2, waits=True) == [1, 2] and store.take(2, waits=True) == [] and store.is_over


def test_without_waiting_an_empty_store_gives_nothing_and_is_not_over():
    store = Handover(2)
    assert store.take(2, waits=False) == [] and not store.is_over
