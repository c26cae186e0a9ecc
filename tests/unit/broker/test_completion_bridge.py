"""One wake-up per burst, and nobody is forgotten."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from jdbcstore import Completion, TransientStoreError
from jdbcstore.broker.completion_bridge import CompletionBridge


def test_a_burst_from_another_thread_wakes_the_loop_once() -> None:
    bursts = 0
    answered: list[int] = []

    async def scenario() -> None:
        nonlocal bursts
        wakes = 0
        loop = asyncio.get_running_loop()
        finished = asyncio.Event()

        def burst() -> None:
            nonlocal bursts
            bursts += 1
            if len(answered) == 500:
                finished.set()

        bridge = CompletionBridge(loop, lambda: None, burst)
        completions: list[Completion[Any]] = [Completion() for _ in range(500)]
        for number, completion in enumerate(completions):
            bridge.expect(completion, lambda subject, error: answered.append(subject), number)
        assert bridge.expected == 500
        original = loop.call_soon_threadsafe

        def counting(*arguments: Any, **options: Any) -> Any:
            nonlocal wakes
            wakes += 1
            return original(*arguments, **options)

        def resolve() -> None:
            for completion in completions:
                completion.resolve(None)

        loop.call_soon_threadsafe = counting  # type: ignore[method-assign, assignment]  # to count
        worker = threading.Thread(target=resolve)
        worker.start()
        worker.join()  # the loop sleeps meanwhile
        await asyncio.wait_for(finished.wait(), 60)
        assert wakes == 1
        assert bridge.expected == 0

    asyncio.run(scenario())
    assert (answered, bursts) == (list(range(500)), 1)


def test_errors_reach_their_handler_and_a_defect_costs_only_its_own() -> None:
    seen: list[object] = []

    async def scenario() -> None:
        bridge = CompletionBridge(asyncio.get_running_loop(), lambda: None, lambda: None)
        error = TransientStoreError("x")

        def defective(subject: object, error: BaseException | None) -> None:
            raise ZeroDivisionError

        first: Completion[Any] = Completion()
        second: Completion[Any] = Completion()
        bridge.expect(first, defective, None)
        bridge.expect(second, lambda subject, failure: seen.append((subject, failure)), "second")
        assert not seen
        first.resolve(None)
        second.fail(error)
        while not seen:
            await asyncio.sleep(0)
        assert seen == [("second", error)]

    asyncio.run(scenario())


def test_a_completion_after_the_end_of_the_loop_is_no_error() -> None:
    completion: Completion[Any] = Completion()

    async def scenario() -> None:
        CompletionBridge(asyncio.get_running_loop(), lambda: None, lambda: None).expect(
            completion, lambda subject, error: None, None
        )

    asyncio.run(scenario())
    completion.resolve(None)
