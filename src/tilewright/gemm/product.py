"""Matmul: one product, from the caller's arrays to the result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilewright.dtypes import FP32, DType
from tilewright.errors import InputError
from tilewright.gemm.arrange import Asked, Job, arrange, check_out
from tilewright.gemm.arrays import HOST, Operand, of_one_place, read, type_taken
from tilewright.gemm.form import Form, packed
from tilewright.gemm.links import Links, links_of
from tilewright.gemm.plan import Plan
from tilewright.gemm.rank import Ranking, rank
from tilewright.gemm.run import run_on_device_arrays, run_on_host_arrays
from tilewright.gemm.streams import handle_of
from tilewright.gemm.targets import EmulatorTarget, GpuTarget, target_of
from tilewright.gemm.tune import Timing, best_known, tune

if TYPE_CHECKING:
    from tilewright.emulator.report import Report

TUNINGS = ("off", "once")
_IN_PLACE = ("c", "residual")  # read where they lie, by the thread that stores there


class Matmul:
    """A product that is planned before it runs, and may run again when its arrays have changed.

    The arguments are those of `tilewright.matmul`, whose text says what each means. `reports` has
    what the emulator counted in the last run, one report a launch.
    Raises: InputError, naming the argument, for whatever does not fit: here, not later.
    """

    def __init__(
        self,
        a: Any,
        b: Any,
        *,
        c: Any = None,
        alpha: float = 1,
        beta: float = 0,
        bias: Any = None,
        activation: str | None = None,
        residual: Any = None,
        epilogue: Any = None,
        out: Any = None,
        out_dtype: Any = None,
        precision: str | None = None,
        deterministic: bool = True,
        batch_invariant: bool = False,
        tune: str = "off",
        stream: Any = None,
        engine: str = "auto",
    ) -> None:
        if tune not in TUNINGS:
            raise InputError(f"tune={tune!r} is not known; use {' or '.join(TUNINGS)}.")
        self._tune, self._given = tune, handle_of(stream)
        self.reports: list[Report] = []
        self._a, self._b = self._factors(a, b)
        check_types(self._a.form, self._b.form, precision)
        chain = links_of(
            self._read,
            c=c,
            alpha=alpha,
            beta=beta,
            bias=bias,
            activation=activation,
            residual=residual,
            epilogue=epilogue,
        )
        self._chain, self._given_out = chain, out
        given = None if out is None else self._read("out", out)
        everything = [*self._operands().values(), *([] if given is None else [given])]
        self._first = of_one_place(everything)
        dtype = _out_type(self._a, given, out_dtype)
        # Where the result would lie in the way of operands, it is made elsewhere and copied.
        self._out = None if given is None or self._in_the_way(given) else given
        self._job = arrange(self._asked(dtype, chain, bool(deterministic), bool(batch_invariant)))
        if given is not None:
            check_out(given.form, self._job.shape)
        self._target = target_of(self._first, engine)

    def _factors(self, a: Any, b: Any) -> tuple[Operand, Operand]:
        return self._read("a", a), self._read("b", b)

    def _read(self, argument: str, array: Any) -> Operand:
        return read(argument, array, self._given)

    def _asked(
        self, dtype: DType, chain: Links, deterministic: bool, batch_invariant: bool
    ) -> Asked:
        return Asked(
            self._a.form,
            self._b.form,
            None if self._out is None else self._out.form,
            dtype,
            tuple(chain.links),
            tuple((name, operand.form) for name, operand in chain.operands.items()),
            deterministic,
            batch_invariant,
        )

    # --- Planning ----------------------------------------------------------------------------

    @property
    def job(self) -> Job:
        """The request and its launches; what `plan` and `ranking` are about."""
        return self._job

    def ranking(self) -> Ranking:
        """All plans that could run, best first, and the kernels that refused.

        Raises: InputError for a product without elements, which needs no plan.
        """
        if self._job.request is None:
            raise InputError(f"the result has the shape {self._job.shape}: nothing is computed.")
        return rank(self._job.request, self._target.gpu)

    def plan(self) -> Plan:
        """The plan that `execute` runs: the one measured as fastest, else the first of `ranking`.

        Raises: as `ranking`.
        """
        ranked = self.ranking()
        assert self._job.request is not None
        return best_known(self._job.request, self._target.gpu) or ranked.plans[0]

    def tune(self) -> tuple[Timing, ...]:
        """Measures all plans, never in the caller's arrays, and remembers the fastest that is right
        for this request as long as the process lives.

        Raises: InputError in the emulator, which has no clock; EngineError where no plan is right.
        """
        if isinstance(self._target, EmulatorTarget):
            raise InputError(
                "tuning measures on a GPU, and these arrays run in the emulator, which has no "
                "clock; leave tune off."
            )
        out = self._out.form if self._out else packed("out", self._job.dtype, self._job.shape)
        plans = self.ranking().plans
        return tune(self._target, self._job, plans, self._operands(), out, self._scalars)

    # --- Running -----------------------------------------------------------------------------

    def execute(self) -> Any:
        """Runs the plan; returns `out`, or a new array of the framework of `a`.

        Work on a GPU is enqueued when this returns, on the stream given or the current one.
        """
        like, job = self._first, self._job
        if self._out is not None:
            self._run(self._out, fresh=False)
            return self._given_out
        made = like.framework.empty(like, job.shape, job.dtype, self._given)
        self._run(like.framework.read("the result", made, self._given), fresh=True)
        if self._given_out is None:
            return made
        like.framework.copy(made, self._given_out)
        return self._given_out

    def _in_the_way(self, out: Operand) -> bool:
        """Whether the result would be stored where an operand is still read."""
        return any(
            out.overlaps(operand) and not (name in _IN_PLACE and out.coincides(operand))
            for name, operand in self._operands().items()
        )

    def _operands(self) -> dict[str, Operand]:
        return {"a": self._a, "b": self._b, **self._chain.operands}

    @property
    def _scalars(self) -> dict[str, float]:
        return self._chain.scalars

    def _run(self, out: Operand, fresh: bool) -> None:
        request, target = self._job.request, self._target
        if request is None:
            return
        operands = {**self._operands(), "out": out}
        untuned = best_known(request, target.gpu) is None
        if self._tune == "once" and untuned and isinstance(target, GpuTarget):
            if self._first.ordinal != HOST and (into := self._stream()) is not None:
                target.engine.refuse_capture(into, "a product cannot be tuned")
            self.tune()
        plan = self.plan()
        if self._first.ordinal == HOST:
            given = self._job, plan, operands, self._scalars, fresh
            if isinstance(target, GpuTarget):
                with target.engine.entered():
                    self.reports = run_on_host_arrays(target.engine, *given)
                return
            try:
                self.reports = run_on_host_arrays(target.engine, *given)
            finally:
                target.engine.forget()
            return
        assert isinstance(target, GpuTarget)
        run_on_device_arrays(
            target, self._job, plan, operands, self._scalars, self._stream(), self._given
        )

    def _stream(self) -> int | None:
        """The one given, else the caller's current one; None where a framework has no streams."""
        if self._given is not None:
            return self._given
        return self._first.framework.stream(self._first.ordinal)


class Linear(Matmul):
    """x · weightᵀ, with the arguments of `tilewright.linear`."""

    def _factors(self, a: Any, b: Any) -> tuple[Operand, Operand]:
        x, weight = self._read("x", a), self._read("weight", b)
        if len(weight.form.shape) != 2:
            raise InputError(
                f"weight has the shape {weight.form.shape}; it must have two dimensions, "
                "(features out, features in)."
            )
        if x.form.shape and x.form.shape[-1] != weight.form.shape[1]:
            raise InputError(
                f"weight has {weight.form.shape[1]} columns and x has {x.form.shape[-1]}; they "
                f"must be equal (shapes {x.form.shape} and {weight.form.shape})."
            )
        return x, weight.transposed


def check_types(one: Form, other: Form, precision: str | None) -> None:
    """Raises: InputError for factors of different types and a precision that is not taken."""
    if one.dtype != other.dtype:
        raise InputError(
            f"{one.argument} is {one.dtype.name} and {other.argument} is {other.dtype.name}; "
            "convert one, both must have the same type."
        )
    if precision == "tf32":
        raise InputError(
            "precision='tf32' is not taken yet: a TF32 kernel that is faster than fp32 is still "
            "missing; leave precision out, and fp32 is multiplied in fp32."
        )
    if precision not in (None, FP32.name):
        raise InputError(f"precision={precision!r} is not known; leave it out, or use 'fp32'.")


def _out_type(a: Operand, out: Operand | None, out_dtype: Any) -> DType:
    """That of the result: out's, out_dtype, or else a's. Raises: InputError where they differ."""
    if out_dtype is None:
        return a.form.dtype if out is None else out.form.dtype
    dtype = type_taken("out_dtype", out_dtype, "name one of them")
    if out is not None and out.form.dtype != dtype:
        raise InputError(
            f"out_dtype is {dtype.name} and out is {out.form.dtype.name}; leave out_dtype out."
        )
    return dtype
