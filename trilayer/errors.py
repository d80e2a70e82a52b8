"""All errors that trilayer raises on purpose, for code that catches them."""

from trilayer_core.errors import (
    ClockError,
    ConflictError,
    CoverageError,
    DefinitionError,
    DifferenceError,
    EnvironmentFault,
    HeldError,
    IntegrityError,
    LogError,
    OvertakenError,
    SettingsError,
    SinkError,
    StoreError,
    TrilayerError,
    UsageError,
)

__all__ = [
    "ClockError",
    "ConflictError",
    "CoverageError",
    "DefinitionError",
    "DifferenceError",
    "EnvironmentFault",
    "HeldError",
    "IntegrityError",
    "LogError",
    "OvertakenError",
    "SettingsError",
    "SinkError",
    "StoreError",
    "TrilayerError",
    "UsageError",
]
