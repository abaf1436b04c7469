"""The kinds of fields that a schema may name. A kind of your own is one more entry in `KINDS`."""

from resus.data.fields.base import Field
from resus.data.fields.categorical import CategoricalField
from resus.data.fields.multi import MultiField
from resus.data.fields.numeric import NumericField

KINDS: dict[str, type[Field]] = {kind.kind: kind for kind in (CategoricalField, NumericField, MultiField)}
