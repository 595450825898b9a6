# SPDX-License-Identifier: PostgreSQL
"""The lab's commands, which the command pgflash finds as entry points."""

from pgflash_lab.cli import lab, paper, predict

lab.lab.add_command(paper.paper_command)
lab.lab.add_command(predict.predict_command)
