"""When does a signal end what is running?"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from warpsight.base.signals import Interruption, leave_again, leave_if_asked, leaving_on_signals


@pytest.fixture(autouse=True)
def hangups_are_not_ignored() -> Iterator[None]:
    """`nohup` starts the tests with SIGHUP ignored."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


def test_a_signal_waits_for_the_end_of_the_context() -> None:
    done = []
    with pytest.raises(SystemExit) as leaving, leaving_on_signals(), Interruption():
        os.kill(os.getpid(), signal.SIGTERM)
        done.append("the rest")
    assert leaving.value.code == 128 + signal.SIGTERM
    assert done == ["the rest"]
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_context_within_another_one_knows_the_signal_and_the_outer_one_ends() -> None:
    done = []
    with pytest.raises(SystemExit), leaving_on_signals(), Interruption():
        os.kill(os.getpid(), signal.SIGHUP)
        with Interruption() as inner:
            done.append(inner.pending)
        with pytest.raises(KeyboardInterrupt):
            leave_if_asked()
        with Interruption() as inner:
            assert inner.pending == signal.SIGHUP
        done.append("the rest")
    assert done == [signal.SIGHUP, "the rest"]


def test_a_signal_in_the_inner_context_is_known_to_the_outer_one() -> None:
    with pytest.raises(KeyboardInterrupt), Interruption() as outer:
        with Interruption():
            os.kill(os.getpid(), signal.SIGINT)
        assert outer.pending == signal.SIGINT


def test_a_second_signal_does_not_wait() -> None:
    done = []
    with pytest.raises(KeyboardInterrupt), Interruption(), Interruption():
        os.kill(os.getpid(), signal.SIGINT)
        done.append("after the first")
        os.kill(os.getpid(), signal.SIGINT)
        done.append("after the second")
    assert done == ["after the first"]


def test_nothing_is_raised_without_a_signal() -> None:
    with Interruption() as interruption:
        leave_if_asked()
    leave_if_asked()
    assert interruption.pending == 0


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_signal_that_comes_in_a_finalizer_is_not_lost() -> None:
    """Python ignores the exception that it raises there."""

    class Goes:
        def __del__(self) -> None:
            os.kill(os.getpid(), signal.SIGTERM)

    with leaving_on_signals():
        leave_again()
        Goes()
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
        with pytest.raises(SystemExit) as leaving:
            leave_again()
    assert leaving.value.code == 128 + signal.SIGTERM
    leave_again()
