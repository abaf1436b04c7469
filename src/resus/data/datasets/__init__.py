"""The published data sets that `prepare` knows by name. A data set of your own is one more entry in `DATA_SETS`."""

from resus.data.datasets import frappe, movielens, taobao
from resus.data.datasets.base import DataSet

DATA_SETS: dict[str, DataSet] = {each.name: each for each in (movielens.DATA_SET, frappe.DATA_SET, taobao.DATA_SET)}
