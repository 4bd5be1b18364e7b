"""Privacy as the API numbers it, for everything that declares applications or reads them back."""

from typing import Final

from justitia.api.v1 import admin_pb2
from justitia.core.privacy import Privacy

PRIVACY_CODES: Final = {
    Privacy.TEXT: admin_pb2.PRIVACY_TEXT,
    Privacy.HASHED: admin_pb2.PRIVACY_HASHED,
    Privacy.NONE: admin_pb2.PRIVACY_NONE,
}
PRIVACY_BY_CODE: Final = {code: privacy for privacy, code in PRIVACY_CODES.items()}
