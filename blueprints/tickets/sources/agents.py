"""A source of dlt: who works on tickets."""

import dlt
from dlt.sources.helpers import requests


@dlt.source
def agents(url, token):
    @dlt.resource(name="agents")
    def pages():
        next_page = f"{url}/agents"
        while next_page:
            answer = requests.get(next_page, headers={"Authorization": f"Bearer {token}"}).json()
            yield answer["items"]
            next_page = answer["next"]

    return pages
