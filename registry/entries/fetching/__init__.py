"""`qualm data fetch`: official files from where their card says they are, then added like files from a folder.

    fetch.py      the steps: what is wanted, licence, room on the disk, download, checksums, unpacking, adding
    hub.py        which files a dataset of the Hugging Face hub has at a commit, asked through huggingface_hub
    download.py   one file over https, resumed where a killed run left it, held to its checksum
    lock.py       registry/fetch.lock: commits and checksums of what this project fetched

Everything lies beneath `.qualm/fetched/NAME` until it is whole, and nothing is written outside it.
"""
