"""The training loop: steps, averaging, metrics, saving and exact resume.

Owns the order of things in a run and nothing else: data come from a ``Source``, losses
and schedule from their modules, files through ``state``. Works on the CPU in float32
and on GPUs in bf16, alone or under torchrun.
"""

import contextlib
import math
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from sr4mdl.errors import CheckpointError, Sr4mdlError
from sr4mdl.mdlformer.card import TrainingFacts, current_commit
from sr4mdl.mdlformer.checkpoint import StoredDtype, load_model, save_model
from sr4mdl.mdlformer.config import ModelConfig
from sr4mdl.mdlformer.layers import choose_kernels
from sr4mdl.mdlformer.network import build_network
from sr4mdl.training.batch import (
    DeviceBatch,
    Phase,
    PhasedSource,
    PlannedSource,
    ReportingSource,
    ResumableSource,
    Source,
    split_by_columns,
)
from sr4mdl.training.learner import Learner, LearnerOutput
from sr4mdl.training.losses import (
    LossConfig,
    compute_losses,
    denominators,
)
from sr4mdl.training.measures import WaitMeter, add, count, shares
from sr4mdl.training.metrics_log import MetricsLog
from sr4mdl.training.optimizers import OPTIMIZERS, OptimizerName, make_optimizers
from sr4mdl.training.schedule import ScheduleConfig
from sr4mdl.training.state import Progress, read_state, write_state

CompileMode = Literal["parts", "whole", "none"]
Precision = Literal["bf16", "fp32"]
_MAX_BAD_STEPS: Final = 20
_REASONS: Final = ("plan", "time", "samples", "SIGINT", "SIGTERM")


class TrainingError(Sr4mdlError):
    """Training cannot go on, such as when gradients stay non-finite."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainConfig:
    """Settings of a run that do not change the network's shape."""

    schedule: ScheduleConfig
    """Learning rate, plan and phases."""
    loss: LossConfig = field(default_factory=LossConfig)
    """What is minimised."""
    formula_layers: int | None = None
    """Layers of the encoder of formulas; None means as many as the network has."""
    writer_layers: int = 2
    """Layers of the writer of formulas, where formulas are written."""
    optimizer: OptimizerName = "adamw"
    """Who updates the large matrices; AdamW updates all others."""
    weight_decay: float = 0.01
    """Of matrices; vectors and embeddings are not decayed."""
    beta1: float = 0.9
    """Decay of Adam's first moment."""
    beta2: float = 0.98
    """Decay of Adam's second moment."""
    epsilon: float = 1e-8
    """Keeps Adam's division safe."""
    clip_norm: float = 1.0
    """Largest norm of the gradient."""
    average_decay: float = 0.999
    """Of the moving average of weights, which is evaluated and shipped."""
    precision: Precision = "bf16"
    """Of matrix products on a GPU; the CPU always computes in float32."""
    compile: CompileMode = "none"
    """``parts`` compiles repeated parts (quick to compile), ``whole`` the network."""
    column_shares: tuple[float, ...] = (1.0,)
    """Shares of the parts a batch is split into by number of columns."""
    column_widths: tuple[int, ...] = (10,)
    """Numbers of columns that parts are cut to."""
    max_time: float | None = None
    """Seconds this call may run; None means the plan decides."""
    max_samples: int | None = None
    """Samples after which this call stops, counted over the whole run."""
    log_every: float = 10.0
    """Seconds between records."""
    evaluate_every: float = 60.0
    """Seconds between evaluations on the held-out batches."""
    save_every: float = 120.0
    """Seconds between checkpoints."""
    stored_weights: StoredDtype = "float32"
    """How a training checkpoint stores weights and their average."""
    stored_moments: StoredDtype | Literal["none"] = "float32"
    """How it stores Adam's moments; ``none`` warms up again on resume."""
    seed: int = 0
    """Of the initial weights and of dropout."""

    def __post_init__(self) -> None:
        for name in ("log_every", "evaluate_every", "save_every", "clip_norm"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)}")
        if not 0.0 <= self.average_decay < 1.0:
            raise ValueError(
                f"average_decay must be in [0, 1), got {self.average_decay}"
            )
        if min(self.column_shares) <= 0 or not math.isclose(sum(self.column_shares), 1):
            raise ValueError(
                f"column_shares must be positive and sum to 1, got {self.column_shares}"
            )
        if self.compile not in ("parts", "whole", "none"):
            raise ValueError(
                f"compile must be parts, whole or none, got {self.compile!r}"
            )
        if self.optimizer not in OPTIMIZERS:
            raise ValueError(
                f"optimizer must be one of {', '.join(OPTIMIZERS)}, "
                f"got {self.optimizer!r}"
            )
        for name in ("formula_layers", "writer_layers"):
            layers = getattr(self, name)
            if layers is not None and layers < 1:
                raise ValueError(f"{name} must be at least 1, got {layers}")
        if self.precision not in ("bf16", "fp32"):
            raise ValueError(f"precision must be bf16 or fp32, got {self.precision!r}")

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as plain JSON values."""
        return asdict(self)


@dataclass(frozen=True)
class World:
    """Place of this process among the processes of a run."""

    rank: int = 0
    size: int = 1

    @property
    def leads(self) -> bool:
        """Whether this process writes files and shows progress."""
        return self.rank == 0


@dataclass(frozen=True)
class TrainingSummary:
    """How a call ended."""

    reason: str
    """``plan``, ``time``, ``samples`` or the name of a signal."""
    samples: int
    """Seen over the whole run."""
    elapsed: float
    """Seconds over the whole run."""
    metrics: Mapping[str, float]
    """Of the averaged weights on the held-out batches."""


class Trainer:
    """One run.

    Parameters
    ----------
    model : ModelConfig
        The network.
    config : TrainConfig
        Settings.
    source : Source
        Batches on ``device``; each process of a run has its own.
    device : torch.device
        Where the network lives.
    out : Path or None
        Directory of checkpoints; None writes none.
    held_out : sequence of DeviceBatch
        Never trained on; the averaged weights are evaluated on them.
    log : MetricsLog, optional
        Where records go.
    data : mapping, optional
        Settings of the data, told in cards.
    resume : Path, optional
        Directory or card of a training checkpoint to continue from.
    initial : Path, optional
        Directory or card of a model whose weights to start from; its samples count
        on, everything else starts anew.
    clock : callable, optional
        Returns seconds; tests put their own.
    world : World, optional
        Place among processes.
    """

    def __init__(
        self,
        model: ModelConfig,
        config: TrainConfig,
        source: Source,
        device: torch.device,
        *,
        out: Path | None = None,
        held_out: Sequence[DeviceBatch] = (),
        log: MetricsLog | None = None,
        data: Mapping[str, Any] | None = None,
        resume: Path | None = None,
        initial: Path | None = None,
        clock: Callable[[], float] = time.monotonic,
        world: World | None = None,
    ) -> None:
        self.model = model
        self.config = config
        self.source = source
        self.device = device
        self.out = out
        self.held_out = held_out
        self.log = log if log is not None else MetricsLog(None, None)
        self.data = dict(data or {})
        self.clock = clock
        self.world = world if world is not None else World()
        self.progress = Progress()
        self._told_phase: Phase | None = None  # what the source draws for
        self.metrics: dict[str, float] = {}
        choose_kernels(device)
        torch.manual_seed(config.seed)
        aligns = config.schedule.strategy != "predict-only"
        writes = aligns and config.loss.write_weight > 0
        self.learner = Learner(
            model,
            with_formulas=aligns and config.loss.align_weight > 0,
            with_counts=config.loss.count_weight > 0,
            formula_layers=config.formula_layers,
            writer_layers=config.writer_layers if writes else 0,
        ).to(device)
        self.average = build_network(model).to(device).eval()
        self.average.load_state_dict(self.learner.network.state_dict())
        self.optimizers = self._make_optimizers()
        if resume is not None:
            self.progress = read_state(
                resume,
                model,
                self.learner,
                self.average,
                self.optimizers,
                source if isinstance(source, ResumableSource) else None,
                device,
            )
        elif initial is not None:
            self._start_from(initial)
        self._wrapped = self._wrap()
        self._waits = WaitMeter(device)
        self._totals: dict[str, Tensor] = {}
        self._bad_steps = torch.zeros((), device=device)

    def run(self) -> TrainingSummary:
        """Train until the plan, a limit or a signal ends it; save; return a summary."""
        config = self.config
        started = self.clock()
        elapsed_before = self.progress.elapsed
        last = {"log": started, "evaluate": started, "save": started}
        samples_logged = self.progress.samples
        self._waits.start()
        with _signals() as interrupted:
            while True:
                now = self.clock()
                self.progress.elapsed = elapsed_before + now - started
                reason, position = self._agree(
                    self._stop_reason(now - started, interrupted), self._position()
                )
                if reason is not None:
                    break
                self.step(position)
                now = self.clock()
                if now - last["log"] >= config.log_every:
                    spent = now - last["log"]
                    last["log"] = now
                    self._record(spent, self.progress.samples - samples_logged)
                    samples_logged = self.progress.samples
                if self.held_out and now - last["evaluate"] >= config.evaluate_every:
                    last["evaluate"] = now
                    self._evaluate_and_record()
                if self.out is not None and now - last["save"] >= config.save_every:
                    last["save"] = now
                    self.save()
        now = self.clock()
        self.progress.elapsed = elapsed_before + now - started
        self._record(now - last["log"], self.progress.samples - samples_logged)
        self._evaluate_and_record()
        self.save()
        return TrainingSummary(
            reason, self.progress.samples, self.progress.elapsed, dict(self.metrics)
        )

    def save(self) -> None:
        """Write the training checkpoint and the averaged model."""
        if self.out is None or not self.world.leads:
            return
        facts = TrainingFacts(
            samples=self.progress.samples,
            data=self.data,
            training=self.config.to_dict(),
            metrics=self.metrics,
            commit=current_commit(),
        )
        write_state(
            self.out,
            self.model,
            facts,
            self.progress,
            self.learner,
            self.average,
            self.optimizers,
            self.source if isinstance(self.source, ResumableSource) else None,
            weights=self.config.stored_weights,
            moments=self.config.stored_moments,
            device=self.device,
        )
        save_model(self.out, self.average, facts)

    def _start_from(self, path: Path) -> None:
        loaded = load_model(path)
        if loaded.network.config != self.model:
            raise CheckpointError(
                f"{path} holds a network of another config: "
                f"{loaded.network.config} instead of {self.model}"
            )
        for network in (self.learner.network, self.average):
            network.load_state_dict(loaded.network.state_dict())
        samples = int(loaded.card["samples"])
        self.progress = Progress(samples=samples, phase_start=samples)

    @torch.no_grad()
    def evaluate(self) -> dict[str, float]:
        """Return measures of the averaged weights on the held-out batches."""
        totals: dict[str, Tensor] = {}
        for batch in self.held_out:
            with self._autocast():
                output = self.average(
                    batch.columns, batch.target, batch.column_mask, batch.row_mask
                )
            count(totals, output, batch)
        return {f"held_out_{key}": value for key, value in shares(totals).items()}

    def _make_optimizers(self) -> list[torch.optim.Optimizer]:
        config = self.config
        return make_optimizers(
            self.learner,
            name=config.optimizer,
            learning_rate=config.schedule.learning_rate,
            weight_decay=config.weight_decay,
            betas=(config.beta1, config.beta2),
            epsilon=config.epsilon,
            fused=self.device.type == "cuda",
        )

    def _wrap(self) -> nn.Module:
        if self.device.type == "cuda":
            torch.set_float32_matmul_precision("high")
        network = self.learner.network
        if self.config.compile != "none":
            # One compiled form per part, width of a batch and mode.
            torch._dynamo.config.recompile_limit = 64
            # As without compilation: what the forward pass keeps in float32 stays so.
            torch._functorch.config.backward_pass_autocast = "off"
        if self.config.compile == "parts":
            for part in network.compilable_parts():
                part.compile(dynamic=False)
        elif self.config.compile == "whole":
            # A writer of formulas reads the rows between the two.
            halves = ("encode", "read") if self.learner.writer else ("compute",)
            for name in halves:
                whole = torch.compile(getattr(network, name), dynamic=False)
                setattr(network, name, whole)
        if self.config.compile != "none":
            for teacher in (self.learner.formulas, self.learner.writer):
                for part in () if teacher is None else teacher.compilable_parts():
                    part.compile(dynamic=False)
        if self.world.size == 1:
            return self.learner
        aligns = self.config.schedule.strategy != "predict-only"
        return DistributedDataParallel(
            self.learner,
            device_ids=[self.device.index] if self.device.type == "cuda" else None,
            find_unused_parameters=aligns,
        )

    def _autocast(self) -> AbstractContextManager[Any]:
        if self.device.type == "cuda" and self.config.precision == "bf16":
            return torch.autocast("cuda", dtype=torch.bfloat16)
        return nullcontext()

    def _position(self) -> float:
        return self.config.schedule.position(
            self.progress.samples, self.progress.elapsed
        )

    def _stop_reason(self, spent: float, interrupted: list[str]) -> str | None:
        if interrupted:
            return interrupted[0]
        if self._position() >= 1.0:
            return "plan"
        if self.config.max_time is not None and spent >= self.config.max_time:
            return "time"
        limit = self.config.max_samples
        if limit is not None and self.progress.samples >= limit:
            return "samples"
        return None

    def _agree(self, reason: str | None, position: float) -> tuple[str | None, float]:
        """Let the first process decide for all, since clocks differ."""
        if self.world.size == 1:
            return reason, position
        code = -1 if reason is None else _REASONS.index(reason)
        said = torch.tensor([code, position], dtype=torch.float64, device=self.device)
        torch.distributed.broadcast(said, src=0)
        code, position = int(said[0]), float(said[1])
        return (None if code < 0 else _REASONS[code]), position

    def _enter_phase(self, phase: Phase) -> None:
        if phase != self._told_phase and isinstance(self.source, PhasedSource):
            self.source.set_phase(phase)
        self._told_phase = phase
        if phase == self.progress.phase:
            return
        if (self.progress.phase, phase) != ("both", "predict"):
            # One objective of two goes on as it was: nothing to warm up for.
            self.progress.phase_start = self.progress.samples
        self.progress.phase = phase

    def step(self, position: float) -> None:
        """Make one update at this position of the plan."""
        schedule = self.config.schedule
        phase = schedule.phase(position)
        self._enter_phase(phase)
        if isinstance(self.source, PlannedSource):
            self.source.set_position(position)
        rate = schedule.rate(
            position, self.progress.samples - self.progress.phase_start
        )
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate
        self.progress.learning_rate = rate
        with self._waits.waiting():
            batch = self.source.next_batch()
        self._forward_backward(batch, phase)
        self._update()
        self.progress.step += 1
        self.progress.samples += batch.n_states * self.world.size

    def _forward_backward(self, batch: DeviceBatch, phase: Phase) -> None:
        self._wrapped.train()
        self.learner.zero_grad(set_to_none=True)
        whole = denominators(batch)
        # Alignment contrasts the states of a batch with each other: keep it whole.
        shares = self.config.column_shares if phase == "predict" else (1.0,)
        parts = split_by_columns(batch, shares, self.config.column_widths)
        has_policy = self.model.architecture != "tokens"
        for number, part in enumerate(parts):
            last = number == len(parts) - 1
            with self._syncing(last):
                with self._autocast():
                    said: LearnerOutput = self._wrapped(part, phase)
                losses = compute_losses(
                    said,
                    part,
                    whole,
                    self.config.loss,
                    phase=phase,
                    has_policy=has_policy,
                )
                losses.total.backward()  # type: ignore[no-untyped-call]
            with torch.no_grad():
                for name in ("total", "value", "policy", "align", "write", "count"):
                    add(self._totals, f"loss_{name}", getattr(losses, name).detach())
                count(self._totals, said.network, part)
        add(self._totals, "steps", torch.ones((), device=self.device))

    def _syncing(self, last: bool) -> AbstractContextManager[Any]:
        if isinstance(self._wrapped, DistributedDataParallel) and not last:
            return self._wrapped.no_sync()
        return nullcontext()

    def _update(self) -> None:
        norm = nn.utils.clip_grad_norm_(
            self.learner.parameters(), self.config.clip_norm
        )
        bad = (~torch.isfinite(norm)).float()
        self._bad_steps = (self._bad_steps + bad) * bad
        on_gpu = self.device.type == "cuda"
        for optimizer in self.optimizers if on_gpu or not bool(bad) else ():
            if on_gpu:
                # Skips the step on the device, without waiting for it.
                optimizer.found_inf = bad  # type: ignore[attr-defined]
            optimizer.step()
        add(self._totals, "gradient_norm", torch.where(bad > 0, 0.0, norm))
        add(self._totals, "skipped_steps", bad)
        decay = min(
            self.config.average_decay,
            (1.0 + self.progress.step) / (10.0 + self.progress.step),
        )
        with torch.no_grad():
            torch._foreach_lerp_(
                list(self.average.parameters()),
                list(self.learner.network.parameters()),
                1.0 - decay,
            )

    def _record(self, spent: float, samples: int) -> None:
        if not self._totals:
            return
        totals, self._totals = self._totals, {}
        steps = float(totals["steps"])
        record: dict[str, Any] = {
            "event": "train",
            "step": self.progress.step,
            "samples": self.progress.samples,
            "elapsed": round(self.progress.elapsed, 3),
            "position": self._position(),
            "phase": self.progress.phase,
            "loss": float(totals["loss_total"]) / steps,
            "loss_value": float(totals["loss_value"]) / steps,
            "loss_policy": float(totals["loss_policy"]) / steps,
            "loss_align": float(totals["loss_align"]) / steps,
            "loss_write": float(totals["loss_write"]) / steps,
            "loss_count": float(totals["loss_count"]) / steps,
            "gradient_norm": float(totals["gradient_norm"]) / steps,
            "skipped_steps": int(totals["skipped_steps"]),
            **shares(totals),
            "learning_rate": self.progress.learning_rate,
            "samples_per_second": samples / max(spent, 1e-9),
            "wait_share": self._waits.share(),
        }
        if isinstance(self.source, ReportingSource):
            record |= self.source.report()
        if float(self._bad_steps) >= _MAX_BAD_STEPS:
            raise TrainingError(
                f"the gradient was not finite in the last {int(self._bad_steps)} steps"
            )
        if self.world.leads:
            self.log.write(record)

    def _evaluate_and_record(self) -> None:
        if not self.held_out or not self.world.leads:
            return
        self.metrics = self.evaluate()
        self.log.write(
            {
                "event": "evaluate",
                "step": self.progress.step,
                "samples": self.progress.samples,
                "elapsed": round(self.progress.elapsed, 3),
                "position": self._position(),
                **self.metrics,
            }
        )


@contextlib.contextmanager
def _signals() -> Iterator[list[str]]:
    """Collect names of signals that ask for an end; the loop stops at a step's end."""
    received: list[str] = []
    if threading.current_thread() is not threading.main_thread():
        yield received
        return

    def note(number: int, _: object) -> None:
        received.append(signal.Signals(number).name)

    watched = (signal.SIGINT, signal.SIGTERM)
    previous = {number: signal.signal(number, note) for number in watched}
    try:
        yield received
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
