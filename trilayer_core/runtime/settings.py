"""The settings, from `trilayer.toml` in the working directory and from `TRILAYER_*` variables.

A variable takes precedence over the file. Some settings form groups: `batch.every_s` in the file is
the variable `TRILAYER_BATCH_EVERY_S`.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_core import ErrorDetails
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)
from pydantic_settings import SettingsError as NoJSONError

from trilayer_core.errors import SettingsError, did_you_mean
from trilayer_core.runtime.spark_options import checked

logger = logging.getLogger("trilayer.settings")

FILE = "trilayer.toml"
BROKER_ADDRESS = "broker-address"
"""The file below `home` with the address of the broker of `trilayer up`."""
SPARK_ADDRESS = "spark-address"
"""The file below `home` with the address of the Spark Connect server of `trilayer up`."""


def default_jars() -> Path:
    """The folder of the jars, for all projects of this user."""
    cache = Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache")
    return Path(os.environ.get("XDG_CACHE_HOME") or cache) / "trilayer" / "jars"


class _File(TomlConfigSettingsSource):
    """`trilayer.toml`, whose values must have the types of the settings.

    A variable is text, which pydantic converts; in the file, text in place of a number is an error.
    """

    def __call__(self) -> dict[str, Any]:
        values = _grouped(super().__call__())
        for name, value in values.items():
            field = self.settings_cls.model_fields.get(name)
            if field is not None and field.annotation is not None:
                try:
                    # as JSON, in which a path is text
                    TypeAdapter[Any](field.annotation).validate_json(_json(value), strict=True)
                except ValidationError as errors:
                    for error in errors.errors():
                        if error["type"] != "value_error":  # one of a validator comes again
                            error["loc"] = (name, *error["loc"])
                            if not isinstance(value, dict):  # whose other values may be secret
                                error |= {"loc": (name,), "input": value}
                            text = _describe(error, names(Settings))
                            raise SettingsError(text) from None
        return values


def _grouped(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the values of the file, those in groups that have the old names of a version ago."""
    grouped, renamed = dict(values), []
    for name in values:
        group, _, setting = name.partition("_")
        if (
            name not in Settings.model_fields
            and group in GROUPS
            and isinstance(grouped.get(group, {}), dict)  # the check of types names one that is not
        ):
            grouped[group] = {setting: grouped.pop(name), **grouped.get(group, {})}
            renamed.append(f"{group}.{setting} in place of {name}")
    if renamed:
        _warn(f"{FILE} must use the new names of settings; write {', '.join(renamed)}")
    return grouped


@cache
def _warn(text: str) -> None:
    """Logs a warning once in this process."""
    logger.warning(text)


def _json(value: object) -> str:
    return json.dumps(value, default=str)  # TOML's dates are text, which no setting is


class Group(BaseModel):
    """Settings of one part of trilayer: a table of the file, or names with a dot."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class BatchSettings(Group):
    """Settings of batch runs."""

    every_s: int = Field(
        600, ge=60, description="length of a scheduled batch run's data interval, whose end is T"
    )
    command: str = Field(
        "",
        description=(
            "command that runs `trilayer` in a scheduled task, such as spark-submit; empty: this"
            " Python"
        ),
    )
    timeout_s: int = Field(
        12 * 3600, ge=60, description="time after which Airflow ends a batch run that has not ended"
    )
    task_timeout_s: int = Field(
        6 * 3600, ge=60, description="time after which Airflow ends one task of a batch run"
    )
    memory_mb: int = Field(1024, ge=512, description="heap of the batch layer's Spark driver")

    @field_validator("every_s")
    @classmethod
    def _interval_is_a_cron(cls, seconds: int) -> int:
        if seconds % 60 or (3600 % seconds and (seconds % 3600 or 86_400 % seconds)):
            raise ValueError("must be minutes that divide an hour, or hours that divide a day")
        return seconds


class SpeedSettings(Group):
    """Settings of the speed layer."""

    trigger_s: float = Field(0.0, ge=0, description="minimum time between two micro-batches")
    max_events: int = Field(
        1_000_000, ge=1, description="maximum number of events in a micro-batch: backpressure"
    )
    memory_mb: int = Field(640, ge=384, description="heap of the speed layer's Spark driver")


class AlertsSettings(Group):
    """Settings of the process of alerts."""

    boundary_s: int = Field(
        600,
        ge=5,
        description=(
            "length of a real-time batch of alerts: at its end alerts pause for about a second and"
            " their progress is committed; after a crash this much is evaluated again"
        ),
    )
    horizon_s: int = Field(
        3600,
        ge=0,
        description="how far back earlier events are read if no publication has stored them",
    )
    state_max: int = Field(
        1_000_000,
        ge=1,
        description="number of keys in the state of alerts above which it is rebuilt",
    )
    memory_mb: int = Field(
        640, ge=384, description="heap of the Spark driver that evaluates alerts"
    )


class ServingSettings(Group):
    """Settings of the serving layer."""

    memory_mb: int = Field(2048, ge=64, description="memory limit of a DuckDB connection")


class Settings(BaseSettings):
    """All settings. The name of a setting with a unit ends in the unit.

    Relative paths are relative to the working directory.
    """

    # One underscore divides a variable once: TRILAYER_BATCH_EVERY_S is `every_s` of `batch`.
    model_config = SettingsConfigDict(
        env_prefix="TRILAYER_",
        env_nested_delimiter="_",
        env_nested_max_split=1,
        extra="forbid",
        frozen=True,
    )

    catalog: str = Field("examples.flights:catalog", description="the catalog, as module:attribute")
    store: str = Field(".trilayer/store", min_length=1, description="folder or URI of the store")
    home: Path = Field(
        Path(".trilayer"), description="folder of the local stack: broker, logs, processes"
    )
    jars: Path = Field(
        default_factory=default_jars,
        description=(
            "folder of downloaded jars (broker, Kafka connector), for all projects of a user"
        ),
    )
    bootstrap_servers: str = Field(
        "", description="Kafka brokers; empty: the embedded broker of `trilayer up`"
    )
    replication_factor: int = Field(
        1, ge=1, description="replication of topics that trilayer creates"
    )

    tick_s: int = Field(60, ge=1, description="length of a tick; cuts are made at ticks")
    settle_s: float = Field(2.0, ge=0, description="time after T before its cut may be requested")
    reconcile: Literal["warn", "fail"] = Field(
        "warn", description="what a run does if batch and speed differ"
    )
    keep_versions: int = Field(5, ge=2, description="publications kept for rollback")
    full_at: str = Field("03:30", description="time of day, UTC, of the nightly full recompute")
    late_after: int = Field(
        2, ge=1, description="intervals by which the cut in force may lag before the batch is late"
    )
    notify: list[str | dict[str, Any]] = Field(
        default_factory=list,
        description=(
            "Airflow notifiers for failed, late and held batch runs: an import path, or a table"
            " with `notifier`, its import path, and its arguments"
        ),
    )
    airflow_owner: str = Field(
        "trilayer", min_length=1, description="owner of the DAGs' tasks in Airflow"
    )
    airflow_pool: str = Field(
        "",
        description=(
            "Airflow's pool for the tasks of batch runs, which must exist; empty: `default_pool`,"
            " and under `trilayer up` its own pool"
        ),
    )
    console_url: str = Field(
        "", description="address of the console, for links in Airflow; empty: that of `trilayer up`"
    )

    spark_master: str = Field(
        "local[2]", description="Spark master of both layers; empty: that of spark-submit"
    )
    spark_remote: str = Field(
        "",
        description=(
            "Spark Connect server of the batch layer, such as sc://host:15002; empty: that of"
            " `trilayer up`, or without it a new driver for each run"
        ),
    )
    spark_connector_lock: Path | None = Field(
        None, description="lock file of the Kafka connector's jars; empty: trilayer's own"
    )
    spark_conf: dict[Annotated[str, AfterValidator(checked)], str] = Field(
        default_factory=dict,
        description="additional Spark settings; only those that change no answer",
    )
    class_archive: bool = Field(
        True,
        description=(
            "whether `trilayer up` builds an archive of Spark's classes in the background, once"
            " for a user, and sessions use it"
        ),
    )
    broker_memory_mb: int = Field(384, ge=256, description="heap of the embedded broker")
    airflow_port: int = Field(
        0, ge=0, le=65535, description="port of the local stack's Airflow; 0: a free one"
    )
    table_max_mb: int = Field(
        64, ge=1, description="maximum size of a reference table, in its file and in memory"
    )
    compact_after: int = Field(
        24, ge=2, description="number of commits of similar size that are compacted into one"
    )

    batch: BatchSettings = BatchSettings()
    speed: SpeedSettings = SpeedSettings()
    alerts: AlertsSettings = AlertsSettings()
    serving: ServingSettings = ServingSettings()
    # A bare dict: only then are variables such as TRILAYER_SERVE_NAMES parsed as JSON.
    serve: dict = Field(
        default_factory=dict, description="settings of the server, which its package validates"
    )

    @field_validator("tick_s")
    @classmethod
    def _tick_divides_a_day(cls, tick_s: int) -> int:
        if 86_400 % tick_s:
            raise ValueError("must divide a day (86400) evenly")
        return tick_s

    @field_validator("home")
    @classmethod
    def _home_is_a_folder(cls, home: Path) -> Path:
        if home.exists() and not home.is_dir():
            raise ValueError("must be a folder or not exist yet; is a file")
        return home

    @field_validator("notify")
    @classmethod
    def _notifiers_have_paths(cls, given: list[str | dict[str, Any]]) -> list[str | dict[str, Any]]:
        for one in given:
            path = one.get("notifier") if isinstance(one, dict) else one
            if not isinstance(path, str) or not path.rpartition(".")[0]:
                raise ValueError(
                    "must be import paths such as my_package.MyNotifier, or tables with one as"
                    " `notifier`"
                )
        return given

    @field_validator("full_at")
    @classmethod
    def _time_of_day(cls, text: str) -> str:
        try:
            datetime.strptime(text, "%H:%M")  # noqa: DTZ007  # a time of day has no zone
        except ValueError:
            raise ValueError("must be a time of day from 00:00 to 23:59") from None
        return text

    @field_validator("bootstrap_servers")
    @classmethod
    def _hosts_and_ports(cls, text: str) -> str:
        # As Kafka's clients interpret it: they ignore a protocol.
        servers = [server.strip().split("://")[-1] for server in text.split(",") if server.strip()]
        if text and not (servers and all(map(_is_address, servers))):
            raise ValueError("must be host:port, or several separated by commas")
        return text

    @field_validator("spark_remote")
    @classmethod
    def _spark_connect(cls, text: str) -> str:
        server = urlsplit(text).netloc
        if text and not (
            text.startswith("sc://") and (_is_address(server) or _is_address(f"{server}:15002"))
        ):
            raise ValueError("must be sc://host:port")
        return text

    @model_validator(mode="after")
    def _ticks_divide_the_interval(self) -> Settings:
        if self.batch.every_s % self.tick_s:
            raise ValueError(
                "batch.every_s must be a multiple of tick_s, because cuts are made at ticks; got"
                f" {self.batch.every_s} and {self.tick_s}"
            )
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The sources of settings, in order of precedence: variables, then `trilayer.toml`."""
        return init_settings, env_settings, _File(settings_cls, toml_file=FILE)

    @property
    def tick(self) -> timedelta:
        """The length of a tick."""
        return timedelta(seconds=self.tick_s)

    @property
    def tick_ms(self) -> int:
        """The length of a tick, in ms."""
        return self.tick_s * 1000

    @property
    def settle_ms(self) -> int:
        """The settle delay, in ms."""
        return round(self.settle_s * 1000)

    @property
    def late_after_s(self) -> int:
        """The lag of the cut in force, in seconds, above which the batch is late."""
        return self.late_after * self.batch.every_s

    def environment(self) -> dict[str, str]:
        """These settings as `TRILAYER_*` variables, for a process with the same settings."""
        # Defaults are included, because the other process may find a file with other values.
        values = self.model_dump(mode="json", exclude_none=True)
        for group in GROUPS:
            values |= {f"{group}_{name}": value for name, value in values.pop(group).items()}
        return {
            f"TRILAYER_{name.upper()}": str(value)
            if isinstance(value, str | int | float)
            else json.dumps(value)
            for name, value in values.items()
        }


GROUPS = ("batch", "speed", "alerts", "serving", "serve")
"""The settings that are groups."""


def load_settings(**overrides: object) -> Settings:
    """Loads the settings of this process.

    Args:
        **overrides: Settings that take precedence over variables and the file.

    Raises:
        SettingsError: A setting is unknown or invalid. The message names it, where it was set, and
            what it must be.
    """
    for variable in os.environ:
        name = variable.removeprefix("TRILAYER_").lower()
        if (
            variable.startswith("TRILAYER_")
            and name not in ("failpoint", "process", *Settings.model_fields)
            and name.partition("_")[0] not in GROUPS
        ):
            variables = [variable_of(setting) for setting in names(Settings)]
            raise SettingsError(
                f"variable {variable} must be one of trilayer's settings"
                f"{did_you_mean(variable, variables)}"
            )
    try:
        settings = Settings(**overrides)  # type: ignore[arg-type]  # pydantic checks what mypy can't know
    except ValidationError as error:
        raise invalid(error, Settings) from None
    except NoJSONError as error:  # of a setting that is a list or a table
        name = re.findall(r'"(\w+)"', str(error))[0]
        kind = "array" if Settings.model_fields[name].default_factory is list else "object"
        variable = variable_of(name)
        raise SettingsError(
            f"variable {variable} must be a JSON {kind}; got {os.environ.get(variable)!r}"
        ) from None
    except (ValueError, TypeError) as error:
        raise SettingsError(f"{FILE} must be TOML: {error}") from None
    return settings.model_copy(update={"bootstrap_servers": broker_address(settings)})


def broker_address(settings: Settings) -> str:
    """The brokers of the settings, else that of the local stack; empty if neither is there."""
    address = settings.home / BROKER_ADDRESS
    if not settings.bootstrap_servers and address.exists():
        return address.read_text().strip()
    return settings.bootstrap_servers


def settings_folder() -> Path | None:
    """The nearest folder with a `trilayer.toml`, from the working directory upwards.

    None if there is none.
    """
    here = Path.cwd()
    return next((folder for folder in [here, *here.parents] if (folder / FILE).is_file()), None)


def invalid(error: ValidationError, model: type[BaseModel], *group: str) -> SettingsError:
    """Returns the error for invalid settings of a model, which is that of a group or of all."""
    valid = names(model, *group)
    return SettingsError(
        "; ".join(_describe(e | {"loc": (*group, *e["loc"])}, valid) for e in error.errors())
    )


def names(model: type[BaseModel], *group: str) -> list[str]:
    """Returns the names of a model's settings, those in a group with a dot."""
    listed: list[str] = []
    for name, field in model.model_fields.items():
        inner = field.default
        is_group = isinstance(inner, Group)
        listed += names(type(inner), name) if is_group else [".".join((*group, name))]
    return listed


def variable_of(name: str) -> str:
    """Returns the environment variable of a setting."""
    return f"TRILAYER_{name.upper().replace('.', '_')}"


def _is_address(text: str) -> bool:
    """Whether a text is host:port; an IPv6 host is in square brackets."""
    parts = re.fullmatch(r"(?:\[[0-9a-fA-F:.]+\]|[^\s:/\[\]]+):(\d+)", text)
    return parts is not None and 0 < int(parts[1]) < 65536


def _describe(error: ErrorDetails, valid: list[str]) -> str:
    loc, value = error["loc"], error.get("input")
    message = error["msg"].removeprefix("Value error, ")
    if not loc:  # about several settings, which the message names
        given = {*value, *(f"{group}.{name}" for group in GROUPS for name in value.get(group, ()))}
        wrong = [_where(name) for name in valid if name in given and name in message]
        return f"{' and '.join(wrong)}: {message}"
    name = ".".join(map(str, loc)).removesuffix(".[key]")
    where = _where(name)
    if error["type"] == "extra_forbidden":
        return f"{where} is not a setting{did_you_mean(name, valid)}"
    return f"{where}: {message[0].lower()}{message[1:]}; got {value!r}"


def _where(name: str) -> str:
    group, _, rest = name.partition(".")
    variables = (variable_of(group), variable_of(f"{group}.{rest.partition('.')[0]}"))
    of_name = next((each for each in variables if each in os.environ), None)
    return f"variable {of_name}" if of_name else f"{name!r} in {FILE}"
