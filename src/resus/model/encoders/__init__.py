"""Encoders Φ. To add an architecture: `ENCODERS.add(MySettings)`; with a linear output it is a predictor too."""

from resus.checking import Registry
from resus.model.encoders.settings import (
    DeepFMSettings,
    EncoderSettings,
    FMSettings,
    LRSettings,
    OwnEncoderSettings,
    WideDeepSettings,
    XDeepFMSettings,
)

ENCODERS: Registry[EncoderSettings] = Registry(
    "encoder",
    LRSettings,
    FMSettings,
    WideDeepSettings,
    DeepFMSettings,
    XDeepFMSettings,
    OwnEncoderSettings,
    default="deepfm",
)
