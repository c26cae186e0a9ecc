"""Transactions of OpenWire clients, local and distributed: TransactionInfo to the broker's face, and the answers.

What a transaction manager is told when something fails is a ``javax.transaction.xa.XAException``, whose code clients
read out of its text, as ActiveMQ's brokers write it. Ending a branch (type 7) means nothing here: a client tells what
belongs to a transaction with each message and each acknowledgement.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from jdbcstore.broker.client_transactions import ClientTransactions
from jdbcstore.errors import JdbcStoreError, ProtocolError, TransactionRolledBack, UnknownTransaction, may_pass
from jdbcstore.identifiers import TransactionId, XATransactionId
from jdbcstore.openwire import commands as c
from jdbcstore.transport.openwire.exceptions import JavaError, is_end_of_service, throwable_of

__all__ = ["XaRequest", "handle_transaction", "not_started", "xa_throwable_of"]

#: What XAResource.prepare answers.
_XA_OK: Final = 0
_XA_RDONLY: Final = 3

#: Codes of XAException.
_XA_RBROLLBACK: Final = 100
_XAER_RMERR: Final = -3
_XAER_NOTA: Final = -4
_XAER_PROTO: Final = -6
_XAER_RMFAIL: Final = -7

_XA_EXCEPTION: Final = "javax.transaction.xa.XAException"


class _Step(IntEnum):
    """`TransactionInfo.type`."""

    BEGIN = 0
    PREPARE = 1
    COMMIT_ONE_PHASE = 2
    COMMIT_TWO_PHASE = 3
    ROLL_BACK = 4
    RECOVER = 5
    FORGET = 6
    END = 7


class _OutOfOrder(ProtocolError):
    """A step of a branch whose state does not allow it."""


@dataclass(frozen=True, slots=True)
class XaRequest:
    """Who waits for a step of a distributed transaction: a request of the broker's face.

    Args:
        command_id: of the TransactionInfo; None if nobody waits.
        vote: what the answer says of a first phase that worked.
    """

    command_id: int | None
    vote: int | None = None

    def response(self, error: BaseException | None) -> c.Response | None:
        """The answer; None if nobody waits for it."""
        if self.command_id is None:
            return None
        if error is not None:
            return c.ExceptionResponse(correlation_id=self.command_id, exception=xa_throwable_of(error))
        if self.vote is not None:
            return c.IntegerResponse(correlation_id=self.command_id, result=self.vote)
        return c.Response(correlation_id=self.command_id)


def xa_throwable_of(error: BaseException) -> c.Throwable:
    """An error as a transaction manager has to see it."""
    if isinstance(error, JavaError):
        return throwable_of(error)
    code = _XAER_RMERR
    if isinstance(error, UnknownTransaction):
        code = _XAER_NOTA
    elif isinstance(error, TransactionRolledBack):
        code = _XA_RBROLLBACK
    elif isinstance(error, _OutOfOrder):
        code = _XAER_PROTO
    elif is_end_of_service(error) or may_pass(error):
        code = _XAER_RMFAIL  # nothing is decided: RMERR of a commit would mean that it was rolled back
    told = throwable_of(error)
    text = f"{told.message} xaErrorCode:{code}"
    return c.Throwable(class_name=_XA_EXCEPTION, message=text, stack=())


def not_started(transaction_id: TransactionId | None) -> JdbcStoreError:
    """What a client is told that sends or acknowledges in a transaction that there is not."""
    text = f"Transaction '{transaction_id}' has not been started."
    if isinstance(transaction_id, XATransactionId):
        return JavaError(_XA_EXCEPTION, f"{text} xaErrorCode:{_XAER_NOTA}")
    return ProtocolError(text)


def _unknown(step: _Step, transaction_id: TransactionId | None) -> JdbcStoreError:
    """What a client is told that takes a step of a transaction that there is not."""
    if step is _Step.PREPARE:
        return JavaError(
            "java.lang.IllegalStateException",
            "Cannot prepare a transaction that had not been started or previously returned XA_RDONLY:"
            f" {transaction_id}",
        )
    return UnknownTransaction(f"Transaction '{transaction_id}' has not been started.")


def handle_transaction(
    info: c.TransactionInfo,
    transactions: ClientTransactions,
    say: Callable[[c.Response], object],
    *,
    is_reconnected: bool,
) -> bool:
    """Do what a TransactionInfo asks for.

    Args:
        info: the command.
        transactions: the client's.
        say: sends what can be answered at once. The rest is answered when it is done: the request is the command's id,
            or an `XaRequest`.
        is_reconnected: whether the client has lost its broker, and repeats what it has heard no answer for.

    Returns:
        False if the client is held, and the command has to be done again.

    Raises:
        ProtocolError: there is no such transaction, or no such step.
    """
    try:
        step = _Step(info.type)
    except ValueError:
        raise JavaError("java.io.IOException", f"Transaction info type unknown: {info.type}") from None
    if step is _Step.RECOVER:
        if info.response_required:
            say(c.DataArrayResponse(correlation_id=info.command_id, data=transactions.in_doubt()))
        return True
    if isinstance(info.transaction_id, XATransactionId):
        return _distributed(step, info, info.transaction_id, transactions, say, is_reconnected=is_reconnected)
    return _local(step, info, transactions, say)


def _local(
    step: _Step, info: c.TransactionInfo, transactions: ClientTransactions, say: Callable[[c.Response], object]
) -> bool:
    name = "" if info.transaction_id is None else info.transaction_id.name
    is_open = name in transactions
    if step is _Step.BEGIN:
        if not is_open:
            transactions.begin(name, info.transaction_id)
    elif step is _Step.END:
        pass
    elif not is_open:
        raise _unknown(step, info.transaction_id)
    elif step in (_Step.COMMIT_ONE_PHASE, _Step.COMMIT_TWO_PHASE):
        return transactions.commit(name, info.command_id if info.response_required else None)
    elif step is _Step.PREPARE:
        raise JavaError(_XA_EXCEPTION, "Prepare not implemented on Local Transactions")
    else:
        transactions.abort(name)
    if info.response_required:
        say(c.Response(correlation_id=info.command_id))
    return True


def _distributed(
    step: _Step,
    info: c.TransactionInfo,
    transaction_id: XATransactionId,
    transactions: ClientTransactions,
    say: Callable[[c.Response], object],
    *,
    is_reconnected: bool,
) -> bool:
    is_outcome = step in (_Step.PREPARE, _Step.COMMIT_ONE_PHASE, _Step.COMMIT_TWO_PHASE, _Step.ROLL_BACK)
    if is_outcome and transactions.waits_for_outcome(transaction_id):
        return False
    request = XaRequest(info.command_id if info.response_required else None)
    try:
        if is_outcome:
            transactions.gather(transaction_id)
        if is_outcome and is_reconnected and not transactions.is_in_doubt(transaction_id):
            if transactions.has_to_learn_outcome(transaction_id):
                return False
            is_committed = transactions.outcome_of(transaction_id)
            if is_committed is not None:
                _repeat(step, transaction_id, transactions, request, say, is_committed=is_committed)
                return True
        return _step(step, transaction_id, transactions, request, say)
    except JdbcStoreError as error:
        answer = request.response(error)
        if answer is None:
            raise
        say(answer)
        return True


def _repeat(
    step: _Step,
    transaction_id: XATransactionId,
    transactions: ClientTransactions,
    request: XaRequest,
    say: Callable[[c.Response], object],
    *,
    is_committed: bool,
) -> None:
    """A client that has lost its broker repeats a branch that has its outcome: it is not done again, and the client
    hears what it would have heard. Raises ProtocolError if it wants the other outcome."""
    name = transaction_id.name
    if name in transactions and not (step is _Step.PREPARE and is_committed):  # the second phase asks it again
        transactions.abort(name)
    if step is _Step.ROLL_BACK and is_committed:
        raise UnknownTransaction(f"Transaction '{transaction_id}' is committed.")
    if step is not _Step.ROLL_BACK and not is_committed:
        raise TransactionRolledBack(f"Transaction '{transaction_id}' is rolled back.")
    if step is _Step.PREPARE:
        request = XaRequest(request.command_id, _XA_OK)
    answer = request.response(None)
    if answer is not None:
        say(answer)


def _step(
    step: _Step,
    transaction_id: XATransactionId,
    transactions: ClientTransactions,
    request: XaRequest,
    say: Callable[[c.Response], object],
) -> bool:
    name = transaction_id.name
    is_open, is_prepared = name in transactions, transactions.is_in_doubt(transaction_id)
    if is_open and is_prepared and step not in (_Step.BEGIN, _Step.END):
        transactions.abort(name)  # sent again after a failover: what is prepared counts
        is_open = False
    if step is _Step.BEGIN:
        if not is_open:
            transactions.begin(name, transaction_id)
    elif step is _Step.END:
        pass
    elif not (is_open or is_prepared):
        raise _unknown(step, transaction_id)
    elif step is _Step.PREPARE:
        if is_open and transactions.is_read_only(name):
            transactions.abort(name)
            request = XaRequest(request.command_id, _XA_RDONLY)
        else:
            request = XaRequest(request.command_id, _XA_OK)
            if is_open:
                return transactions.prepare(transaction_id, request)
            transactions.require_prepared(transaction_id)
    elif step is _Step.FORGET:
        if is_prepared:  # only what was decided without its transaction manager can be forgotten
            raise _OutOfOrder(
                f"Transaction '{transaction_id}' is prepared: commit it or roll it back, it cannot be forgotten"
            )
        transactions.abort(name)
    elif is_prepared:
        if step in (_Step.COMMIT_TWO_PHASE, _Step.COMMIT_ONE_PHASE):
            transactions.commit_prepared(transaction_id, request)
        else:
            transactions.roll_back_prepared(transaction_id, request)
        return True
    elif step is _Step.COMMIT_ONE_PHASE:
        return transactions.commit(name, request)
    elif step is _Step.COMMIT_TWO_PHASE:
        raise _OutOfOrder("Cannot do 2 phase commit if the transaction has not been prepared")
    else:
        transactions.abort(name)
    answer = request.response(None)
    if answer is not None:
        say(answer)
    return True
