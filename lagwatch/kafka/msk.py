"""Log-in to Amazon MSK with IAM: tokens signed with the AWS credentials of this machine.

Optional (extra `msk`): AWS's own signer, which finds credentials as every AWS tool does (variables
of the environment, profiles, the role of the machine or container).
"""

from importlib import import_module
from types import ModuleType
from typing import Final

from lagwatch.config import SaslSettings
from lagwatch.config.cluster import AWS_MSK_IAM

_SESSION: Final = "lagwatch"
"""Name of the session in AWS's audit log, where a role is assumed."""


class NoTokenError(Exception):
    """No token could be signed; the text says why and what helps, without secrets."""


def token(sasl: SaslSettings) -> tuple[str, float]:
    """Sign a token; returns it and the second of the epoch at which it expires.

    Raises:
        NoTokenError: the signer is not installed, or AWS gives no credentials.
    """
    signed, expires_ms = _signed(_signer(), sasl)
    return signed, expires_ms / 1000


def _signer() -> ModuleType:
    try:
        return import_module("aws_msk_iam_sasl_signer.MSKAuthTokenProvider")
    except ImportError as error:
        message = f"{AWS_MSK_IAM} needs AWS's signer: pip install 'lagwatch[msk]'"
        raise NoTokenError(message) from error


def _signed(signer: ModuleType, sasl: SaslSettings) -> tuple[str, int]:
    try:
        if sasl.role:
            found = signer.generate_auth_token_from_role_arn(sasl.region, sasl.role, _SESSION)
        elif sasl.profile:
            found = signer.generate_auth_token_from_profile(sasl.region, sasl.profile)
        else:
            found = signer.generate_auth_token(sasl.region)
    except AttributeError as error:  # the signer does not look whether there are any
        raise NoTokenError("AWS finds no credentials for this process") from error
    except Exception as error:  # botocore's errors and the signer's have no common base
        raise NoTokenError(f"AWS gives no credentials: {error}") from error
    signed: tuple[str, int] = found
    return signed
